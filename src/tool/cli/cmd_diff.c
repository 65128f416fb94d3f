/* `piano diff`: loads two groups of runs, prints what changed, and fails for CI if --fail-above is
 * exceeded. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/profile/notices.h"
#include "tool/report/diff.h"
#include "tool/report/recordings_diff.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

struct request {
    struct report_options options;
    double fail_above; /* < 0: not given */
    bool json, wall;
    struct heap_skip skip;
    struct range_asked range;
    const char *process; /* NULL: all */
    const char *words[2];
    size_t word_count;
};

static int read_percent(const struct flag_line *line, const char *text, void *field)
{
    char *end = NULL;
    double percent = strtod(text, &end);
    *(double *)field = percent;
    if (end != text && *end == '%')
        end++;
    if (end == text || *end || !isfinite(percent) || percent < 0)
        return say_usage(line->command, "--fail-above %s: not a percentage", line->safe);
    return EXIT_DONE;
}

static const struct flag flags[] = {
    {"--fail-above",
     "exit 1 when a function that matters (1 % of the run or more) grew by more than PCT percent "
     "in self time, allocations or bytes, beyond the noise (recordings: in self CPU time; in "
     "live, peak or allocated bytes of a site; in p50 or p99 of a task's polls)",
     FLAG_READ("PCT", read_percent, double, fail_above)},
    {"--wall", "of functions: wall times also if threads waited for a CPU", FLAG_SWITCH(wall)},
    {"--skip", "of memory: a wrapper of malloc; may be repeated",
     FLAG_READ("PATTERN", flag_skip, struct heap_skip, skip)},
    {"--no-skip",
     "the innermost frames are the sites, also in libraries and wrappers (xmalloc, ...)",
     FLAG_SWITCH(skip.none)},
    FLAGS_RANGE,
    FLAG_PROCESS,
    {"--top", "the first N functions", FLAG_COUNT(options.top)},
    {"--all", "all functions", FLAG_SWITCH(options.all)},
    {"--json", "the same as JSON, all of it", FLAG_SWITCH(json)},
    {0},
};

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
    int err = diff_make(&d, sides, q->wall);
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
                     "`%s` names %zu recordings; only one per side can be compared",
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
    const struct recordings_diff_wish wish = {&q->skip, &q->range, q->process};
    int err = recordings_diff_make(&d, paths, labels, &wish, &error);
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
    if (!of_kind[1] && q->process)
        return say_error("piano diff A B, without --process",
                         "runs of functions have one process each; --process is for recordings");
    if (!of_kind[1] && (q->range.from.given || q->range.to.given))
        return say_error("piano diff A B, without --from and --to",
                         "functions have sums of the whole run; a range of time is for recordings");
    return of_kind[1] ? diff_recordings(q, paths, labels) : diff_spans(q, paths, labels);
}

static int diff(void *request)
{
    struct request *q = request;
    static const char *const latest[2] = {"previous", "latest"};
    struct runs_paths paths[2] = {{0}};
    struct run_error error = {.text = ""};
    char texts[2][128];
    const char *const labels[2] = {texts[0], texts[1]};
    q->word_count = q->words[1] ? 2 : q->words[0] ? 1 : 0;
    if (q->word_count == 1)
        return say_usage("diff",
                         "one run cannot be compared; name two, or none for the latest two");
    q->options.width = table_terminal(stdout);
    q->options.colour = say_colour(stdout);
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

const struct command command_diff = {
    .name = "diff",
    .summary = "compare two runs, or two groups of runs",
    .usage = "piano diff [A B] [OPTIONS]",
    .about = "Compares two runs, or two groups of runs: time and allocations of each function, the "
             "greatest change first. A and B are files, tags or run ids; several joined by "
             "commas, or a tag with several runs, make a group. With no arguments: the two latest "
             "runs. Two recordings are compared by what both have: CPU time by function, memory "
             "by site, polls by task.",
    .flags = flags,
    .notes = "Two or more runs per side distinguish a change from noise; see docs/diff.md.",
    .examples = "piano diff\n"
                "piano diff before after --fail-above 5\n"
                "piano diff a1,a2,a3 b1,b2,b3 --json",
    .words = {WORDS_LISTED, offsetof(REQUEST, words), "run", 2,
              "two sides at most; join the runs of a side by commas"},
    .run = diff,
    COMMAND_REQUEST(.fail_above = -1),
};
