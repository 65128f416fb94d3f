/* `piano diff`: loads two groups of runs, prints what changed, and fails for CI if --fail-above is
 * exceeded. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/cli/outcome.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/report/diff.h"
#include "tool/report/recordings_diff.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

const char cmd_diff_help[] =
    "Usage: piano diff [A B] [OPTIONS]\n"
    "\n"
    "Compares two runs, or two groups of runs: time and allocations of each\n"
    "function, the greatest change first. A and B are files, tags or run ids;\n"
    "several joined by commas, or a tag with several runs, make a group. With no\n"
    "arguments: the two latest runs. Two recordings are compared by what both\n"
    "have: CPU time by function, memory by site, polls by task.\n"
    "\n"
    "  --fail-above PCT  exit 1 when a function that matters (1 % of the run or\n"
    "                    more) grew by more than PCT percent in self time,\n"
    "                    allocations or bytes, beyond the noise (recordings: in\n"
    "                    self CPU time; in live, peak or allocated bytes of a\n"
    "                    site; in p50 or p99 of a task's polls)\n"
    "  --skip PATTERN    of memory: a wrapper of malloc; may be repeated\n"
    "  --no-skip         not even well-known wrappers (xmalloc, g_malloc, ...)\n"
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

static const char *const flag_names[] = {"--fail-above", "--top",  "--all",     "--json",
                                         "--help",       "--skip", "--no-skip", NULL};

struct request {
    struct report_options options;
    double fail_above; /* < 0: not given */
    bool json;
    struct heap_skip skip;
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
    enum flag_taken taken = flags_top(f, &q->options.top);
    taken = taken ? taken : flags_switch(f, "--all", &q->options.all);
    taken = taken ? taken : flags_switch(f, "--json", &q->json);
    taken = taken ? taken : flags_skip(f, &q->skip);
    return taken ? taken : take_percent(f, q);
}

static int parse(struct flags *f, struct request *q)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        enum flag_taken taken = take(f, q);
        int status = taken == FLAG_BAD ? EXIT_USAGE
                     : taken == FLAG_YES
                         ? EXIT_DONE
                         : flags_word(f, "two sides at most; join the runs of a side by commas",
                                      q->words, 2);
        if (status != EXIT_DONE)
            return status;
    }
    q->word_count = q->words[1] ? 2 : q->words[0] ? 1 : 0;
    if (q->word_count == 1)
        return say_usage("diff", "one run is nothing to compare; name two, or none for the latest "
                                 "two");
    return EXIT_DONE;
}

/* Without words: the latest run, and the previous one of the same kind. */
static int latest_two(struct runs_paths sides[2], struct run_error *error)
{
    struct runs runs;
    size_t found = 0;
    int err = runs_list(&runs, NULL);
    if (err)
        runs_fail(&runs, err, error);
    for (size_t i = 0; err == 0 && i < runs.count && found < 2; i++) {
        const struct runs_entry *e = &runs.entries[i];
        if (e->further || e->recording != runs.entries[0].recording)
            continue;
        err = runs_resolve(e->path, &sides[1 - found], error);
        found += err == 0;
    }
    if (err == 0 && found < 2) {
        const char *what = runs.count && runs.entries[0].recording ? "recording" : "run";
        snprintf(error->text, sizeof(error->text), "%s has %zu %s%s; two are needed", runs.dir,
                 found, what, found == 1 ? "" : "s");
        snprintf(error->hint, sizeof(error->hint),
                 "piano record -- PROGRAM, or piano profile; then piano diff");
        err = -ENOENT;
    }
    runs_release(&runs);
    return err;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A run that is named twice on one side (by itself, and by a tag that contains it) would make the
 * side look less noisy than two runs are, and could make a change look significant. */
static void drop_doubles(struct runs_paths *side)
{
    size_t kept = 0;
    for (size_t i = 0; i < side->count; i++) {
        size_t k = 0;
        while (k < kept && !is_same_file(side->paths[k], side->paths[i]))
            k++;
        if (k == kept) {
            side->paths[kept++] = side->paths[i];
            continue;
        }
        char safe[512];
        say("%s is named twice, and counts once", say_safe(safe, sizeof(safe), side->paths[i]));
        free(side->paths[i]);
    }
    side->count = kept;
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
        run_notices(&side->runs[i], false);
    }
    return 0;
}

/* The label of a side: its word without directory and file extension. */
static void make_label(char *label, size_t size, const char *word)
{
    snprintf(label, size, "%s", paths_base(word));
    char *dot = strrchr(label, '.');
    if (dot && (!strcmp(dot, ".ndjson") || !strcmp(dot, ".json") || !strcmp(dot, ".rec")))
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
    int status = outcome_written("the comparison", err);
    if (err == 0 && q->fail_above >= 0)
        status = judge(&d, q->fail_above);
    diff_release(&d);
    return status;
}

static int diff_spans(const struct request *q, const struct runs_paths paths[2],
                      const char *const labels[2])
{
    struct run_error error = {.text = ""};
    struct diff_side sides[2] = {{.label = labels[0]}, {.label = labels[1]}};
    int err = 0;
    for (int s = 0; s < 2 && err == 0; s++)
        err = load(&sides[s], &paths[s], &error);
    int status = err ? outcome_failed(err, &error) : compare(q, sides);
    for (int s = 0; s < 2; s++)
        unload(&sides[s]);
    return status;
}

/* ---- recordings ---- */

static int several(const char *word, size_t count)
{
    char safe[300];
    return say_error("piano diff A B, one recording each",
                     "`%s` names %zu recordings; one a side can be compared",
                     say_safe(safe, sizeof(safe), word), count);
}

static int diff_recordings(const struct request *q, const struct runs_paths sides[2],
                           const char *const labels[2])
{
    struct recordings_diff d;
    struct run_error error = {.text = ""};
    for (int s = 0; s < 2; s++)
        if (sides[s].count > 1)
            return several(q->word_count ? q->words[s] : labels[s], sides[s].count);
    const char *const paths[2] = {sides[0].paths[0], sides[1].paths[0]};
    int err = recordings_diff_make(&d, paths, labels, &q->skip, &error);
    if (err)
        return outcome_failed(err, &error);
    err = q->json ? recordings_diff_json(stdout, &d, q->fail_above)
                  : recordings_diff_print(stdout, &d, &q->options);
    int status = outcome_written("the comparison", err);
    if (err == 0 && q->fail_above >= 0 && recordings_diff_judge(&d, q->fail_above))
        status = EXIT_FAILED;
    recordings_diff_release(&d);
    return status;
}

/* Compares runs with runs or recordings with recordings; a mixture has nothing in common. */
static int diff_paths(const struct request *q, const struct runs_paths paths[2],
                      const char *const labels[2])
{
    const char *of_kind[2] = {NULL, NULL};
    char run[300], recording[300];
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < paths[s].count; i++)
            of_kind[recording_is(paths[s].paths[i])] = paths[s].paths[i];
    if (of_kind[0] && of_kind[1])
        return say_error("piano list",
                         "%s is a recording and %s a run of functions: there is "
                         "nothing to compare",
                         say_safe(recording, sizeof(recording), of_kind[1]),
                         say_safe(run, sizeof(run), of_kind[0]));
    return of_kind[1] ? diff_recordings(q, paths, labels) : diff_spans(q, paths, labels);
}

static int diff(const struct request *q)
{
    static const char *const latest[2] = {"previous", "latest"};
    struct runs_paths paths[2] = {{0}};
    struct run_error error = {.text = ""};
    char texts[2][128];
    const char *const labels[2] = {texts[0], texts[1]};
    int err = q->word_count == 0 ? latest_two(paths, &error) : 0;
    for (size_t s = 0; s < q->word_count && err == 0; s++)
        err = runs_resolve(q->words[s], &paths[s], &error);
    for (int s = 0; s < 2 && err == 0; s++)
        drop_doubles(&paths[s]);
    for (int s = 0; s < 2; s++)
        make_label(texts[s], sizeof(texts[s]), q->word_count ? q->words[s] : latest[s]);
    int status = err ? outcome_failed(err, &error) : diff_paths(q, paths, labels);
    for (int s = 0; s < 2; s++)
        runs_paths_release(&paths[s]);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    struct request q = {.fail_above = -1};
    struct flags f = {"diff", argc, argv, flag_names, 1};
    int status = parse(&f, &q);
    if (status != EXIT_DONE)
        return status;
    q.options.width = table_terminal(stdout);
    q.options.colour = say_colour(stdout);
    return diff(&q);
}
