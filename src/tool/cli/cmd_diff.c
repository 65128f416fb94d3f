/* `piano diff`: loads two groups of runs, prints what changed, and says no to CI if asked to. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/load/runs.h"
#include "tool/report/diff.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const char help_text[] =
    "Usage: piano diff [A B] [OPTIONS]\n"
    "\n"
    "Compares two runs, or two groups of runs: time and allocations of each function, the "
    "greatest\n"
    "change first. A and B are files, tags or run ids; several joined by commas, or a tag with\n"
    "several runs, make a group. With no arguments: the two latest runs.\n"
    "\n"
    "  --fail-above PCT  exit 1 when a function that matters (1 % of the run or more) grew by "
    "more\n"
    "                    than PCT percent in self time, allocations or bytes, beyond the noise\n"
    "  --top N           the first N functions\n"
    "  --all             all functions\n"
    "  --json            the same as JSON, all of it\n"
    "\n"
    "Two or more runs a side tell a change from noise; see docs/diff.md.\n"
    "\n"
    "Examples:\n"
    "  piano diff\n"
    "  piano diff before after --fail-above 5\n"
    "  piano diff a1,a2,a3 b1,b2,b3 --json\n";

static const char *const flag_names[] = {"--fail-above", "--top", "--all", "--json", "--help"};

struct request {
    struct report_options options;
    double fail_above; /* < 0: not asked */
    bool json, help;
    const char *words[2];
    size_t word_count;
};

static enum flag_taken take_percent(struct flags *f, struct request *q)
{
    const char *text = NULL;
    enum flag_taken taken = flags_value(f, "--fail-above", &text);
    if (taken != FLAG_YES)
        return taken;
    char *end = NULL, safe[64];
    q->fail_above = strtod(text, &end);
    if (end != text && *end == '%')
        end++;
    if (end == text || *end || !isfinite(q->fail_above) || q->fail_above < 0) {
        say_usage(f->command, "--fail-above %s: not a percentage", say_safe(safe, 64, text));
        return FLAG_BAD;
    }
    return FLAG_YES;
}

static enum flag_taken take(struct flags *f, struct request *q)
{
    double top = 0;
    enum flag_taken taken = flags_number(f, "--top", 1, &top);
    if (taken == FLAG_YES)
        q->options.top = (size_t)top;
    taken = taken ? taken : flags_switch(f, "--all", &q->options.all);
    taken = taken ? taken : flags_switch(f, "--json", &q->json);
    taken = taken ? taken : flags_switch(f, "--help", &q->help);
    taken = taken ? taken : flags_switch(f, "-h", &q->help);
    return taken ? taken : take_percent(f, q);
}

static int parse(struct flags *f, struct request *q)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        enum flag_taken taken = take(f, q);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_YES)
            continue;
        const char *word = f->argv[f->at];
        if (word[0] == '-' && word[1])
            return flags_unknown(f, flag_names, sizeof(flag_names) / sizeof(*flag_names));
        if (q->word_count == 2)
            return say_usage("diff", "two sides at most; join the runs of a side by commas");
        q->words[q->word_count++] = word;
    }
    if (q->word_count == 1 && !q->help)
        return say_usage("diff", "one run is nothing to compare; name two, or none for the latest "
                                 "two");
    return EXIT_DONE;
}

/* With no words: the run before the latest one, and the latest. */
static int latest_two(struct runs_paths sides[2], struct run_error *error)
{
    struct runs runs;
    int err = runs_list(&runs, NULL);
    if (err) {
        snprintf(error->text, sizeof(error->text), "%s: %s", runs.dir ? runs.dir : "runs",
                 strerror(-err));
    } else if (runs.count < 2) {
        snprintf(error->text, sizeof(error->text), "%s has %zu run%s; two are needed", runs.dir,
                 runs.count, runs.count == 1 ? "" : "s");
        snprintf(error->hint, sizeof(error->hint), "piano profile, then piano diff");
        err = -ENOENT;
    }
    for (int s = 0; s < 2 && err == 0; s++)
        err = runs_resolve(runs.entries[1 - s].path, &sides[s], error);
    runs_release(&runs);
    return err;
}

static void unload(struct diff_side *side)
{
    for (size_t i = 0; i < side->count; i++)
        run_unload(&side->runs[i]);
    free(side->runs);
}

static int load(struct diff_side *side, const struct runs_paths *paths, struct run_error *error)
{
    side->runs = calloc(paths->count, sizeof(*side->runs));
    if (!side->runs)
        return -ENOMEM;
    for (size_t i = 0; i < paths->count; i++) {
        say_progress("reading %s", paths->paths[i]);
        int err = run_load(&side->runs[i], paths->paths[i], NULL, error);
        say_progress_done();
        if (err)
            return err;
        side->count++;
        report_notices(&side->runs[i], false);
    }
    return 0;
}

/* How a side is headed: the word used for it, without directory and ending. */
static void make_label(char *label, size_t size, const char *word)
{
    const char *slash = strrchr(word, '/');
    snprintf(label, size, "%s", slash ? slash + 1 : word);
    char *dot = strrchr(label, '.');
    if (dot && (strcmp(dot, ".ndjson") == 0 || strcmp(dot, ".json") == 0))
        *dot = '\0';
}

static int judge(const struct diff *d, double percent)
{
    static const char *const what[DIFF_MEASURES] = {"self time", "allocations", "allocated bytes"};
    int status = EXIT_DONE;
    for (size_t i = 0; i < d->count; i++) {
        for (int m = 0; m < DIFF_MEASURES; m++) {
            const struct diff_row *row = &d->rows[i];
            char safe[200], grown[UNITS_LEN];
            if (!diff_grew(d, row, (enum diff_measure)m, percent))
                continue;
            double by = diff_percent(row, (enum diff_measure)m);
            units_percent_signed(grown, by / 100.0);
            say_safe(safe, sizeof(safe), row->name);
            if (isfinite(by))
                say("%s: %s %s, above %g%%", safe, what[m], grown, percent);
            else
                say("%s: %s grew from nothing, above %g%%", safe, what[m], percent);
            status = EXIT_FAILED;
        }
    }
    return status;
}

static int compare(const struct request *q, struct diff_side sides[2])
{
    struct diff d;
    int err = diff_make(&d, sides);
    if (err == 0)
        err = q->json ? diff_print_json(stdout, &d, q->fail_above)
                      : diff_print(stdout, &d, &q->options);
    if (err && !ferror(stdout))
        return say_error(NULL, "the comparison stopped: %s", strerror(-err));
    int status = err == 0 && q->fail_above >= 0 ? judge(&d, q->fail_above) : EXIT_DONE;
    if (err == 0)
        diff_release(&d);
    return status;
}

static int diff(const struct request *q)
{
    static const char *const latest[2] = {"previous", "latest"};
    struct runs_paths paths[2] = {{0}};
    struct run_error error = {.text = ""};
    char labels[2][128];
    struct diff_side sides[2] = {{.label = labels[0]}, {.label = labels[1]}};
    int err = 0, status;
    if (q->word_count == 0)
        err = latest_two(paths, &error);
    for (size_t s = 0; s < q->word_count && err == 0; s++)
        err = runs_resolve(q->words[s], &paths[s], &error);
    for (int s = 0; s < 2 && err == 0; s++) {
        make_label(labels[s], sizeof(labels[s]), q->word_count ? q->words[s] : latest[s]);
        err = load(&sides[s], &paths[s], &error);
    }
    if (err)
        status = say_error(error.hint[0] ? error.hint : NULL, "%s",
                           error.text[0] ? error.text : strerror(-err));
    else
        status = compare(q, sides);
    for (int s = 0; s < 2; s++) {
        unload(&sides[s]);
        runs_paths_release(&paths[s]);
    }
    return status;
}

int cmd_diff(int argc, char **argv)
{
    struct request q = {.fail_above = -1};
    struct flags f = {.command = "diff", .argc = argc, .argv = argv};
    int status = parse(&f, &q);
    if (status != EXIT_DONE)
        return status;
    if (q.help) {
        fputs(help_text, stdout);
        return EXIT_DONE;
    }
    q.options.width = table_terminal(stdout);
    q.options.colour = say_colour(stdout);
    return diff(&q);
}
