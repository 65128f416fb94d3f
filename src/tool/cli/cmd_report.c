/* `piano report`: reads one run or recording and prints one of its reports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/cli/outcome.h"
#include "tool/load/companion.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/report/cpu.h"
#include "tool/report/heap.h"
#include "tool/report/overview.h"
#include "tool/report/polls.h"
#include "tool/report/report.h"
#include "tool/util/say.h"
#include "tool/util/table.h"

const char cmd_report_help[] =
    "Usage: piano report [RUN] [OPTIONS]\n"
    "\n"
    "Shows where the time and the allocations of a run went, or what was seen of a\n"
    "recorded program: its polls, its CPU time, its memory. RUN is a file, a tag, a\n"
    "run id, or nothing for the latest of the project. Of a tag with several runs,\n"
    "the newest is shown. A recording of several instruments has a summary of each;\n"
    "--polls, --cpu and --heap pick one.\n"
    "\n"
    "  --frames        frame by frame: the worst and their neighbours, spikes marked\n"
    "  --budget TIME   a spike is a frame that took longer than this, as in 16.6ms\n"
    "                  (ns, us, ms, s); otherwise longer than twice the median\n"
    "  --threads       thread by thread\n"
    "  --top N         the first N functions (with --frames: the N worst frames)\n"
    "  --all           everything: functions never called, every frame and thread\n"
    "  --places        with file and line\n"
    "  --cpu-time      ranks by time on the CPU, and shows it: waiting, for a CPU or\n"
    "                  anything else, is no work\n"
    "  --wall          ranks by wall time even where functions wait\n"
    "  --uncorrected   self times as measured, with the cost of measuring still in\n"
    "                  them (no Total then: it is not kept raw)\n"
    "  --json          the same as JSON, all of it\n"
    "\n"
    "Of events (`piano record --events`):\n"
    "  --polls         red flags, polls by task, the longest and what was in them\n"
    "\n"
    "Of CPU samples (`piano record --cpu`):\n"
    "  --cpu           functions by CPU time\n"
    "  --threads       the same thread by thread\n"
    "  --tree          the call tree; with --by off-cpu that of times off the CPU\n"
    "\n"
    "Of heap recordings (`piano record --heap`):\n"
    "  --heap          totals, then sites by live, allocated and churned bytes\n"
    "  --tree          the call tree, from the roots\n"
    "  --leaks         what was not freed, stack by stack\n"
    "  --growth        what changed between two snapshots: the first and the last, or\n"
    "                  --from N and --to N (`end`: what the recording ended with)\n"
    "  --peak          who held the memory at the peak\n"
    "  --by FIGURE     live, allocated, peak or churn: for the tree and the first\n"
    "                  table (of CPU samples: cpu or off-cpu)\n"
    "  --skip PATTERN  a wrapper of malloc: memory counts to who calls it. May be\n"
    "                  repeated; * and ? as in the shell\n"
    "  --no-skip       not even well-known wrappers (xmalloc, g_malloc, ...)\n"
    "\n"
    "Examples:\n"
    "  piano report\n"
    "  piano report --frames before\n"
    "  piano report --budget 16.6ms\n"
    "  piano report --polls --top 3\n"
    "  piano report --cpu --tree\n"
    "  piano report --heap --tree --by allocated\n"
    "  piano report --json | jq '.functions[0]'\n";

static const char *const flag_names[] = {
    "--frames", "--threads", "--top",      "--all",  "--places", "--uncorrected",
    "--json",   "--help",    "--heap",     "--tree", "--leaks",  "--growth",
    "--peak",   "--by",      "--from",     "--to",   "--polls",  "--cpu",
    "--skip",   "--no-skip", "--cpu-time", "--wall", "--budget", NULL};

struct request {
    struct report_options options;
    struct heap_options heap_options;
    bool frames, threads, json, uncorrected, cpu_time, wall;
    bool heap, tree, leaks, growth, peak, by;
    bool cpu, polls;
    struct heap_skip skip;
    int64_t budget_ns;
    const char *run;
};

static enum flag_taken take_by(struct flags *f, struct request *q)
{
    enum flag_taken taken = flags_by(f, true, &q->heap_options.by);
    q->by |= taken == FLAG_YES;
    q->heap_options.by_given = q->by;
    return taken;
}

/* Parses the number of a snapshot, or `end`. */
static enum flag_taken take_moment(struct flags *f, const char *name, long *moment)
{
    const char *text = NULL;
    char *end = NULL, safe[64];
    enum flag_taken taken = flags_value(f, name, &text);
    if (taken != FLAG_YES)
        return taken;
    *moment = strcmp(text, "end") == 0 ? GROWTH_TO_END : strtol(text, &end, 10);
    if (end && (end == text || *end || *moment < 0 || *moment > UINT32_MAX)) {
        say_usage(f->command, "%s %s: not the number of a snapshot", name,
                  say_safe(safe, sizeof(safe), text));
        return FLAG_BAD;
    }
    return FLAG_YES;
}

static enum flag_taken take_heap(struct flags *f, struct request *q)
{
    enum flag_taken taken = flags_switch(f, "--heap", &q->heap);
    taken = taken ? taken : flags_switch(f, "--cpu", &q->cpu);
    taken = taken ? taken : flags_switch(f, "--polls", &q->polls);
    taken = taken ? taken : flags_switch(f, "--tree", &q->tree);
    taken = taken ? taken : flags_switch(f, "--leaks", &q->leaks);
    taken = taken ? taken : flags_switch(f, "--growth", &q->growth);
    taken = taken ? taken : flags_switch(f, "--peak", &q->peak);
    taken = taken ? taken : take_by(f, q);
    taken = taken ? taken : flags_skip(f, &q->skip);
    taken = taken ? taken : take_moment(f, "--from", &q->heap_options.from);
    return taken ? taken : take_moment(f, "--to", &q->heap_options.to);
}

static enum flag_taken take(struct flags *f, struct request *q)
{
    enum flag_taken taken = flags_switch(f, "--frames", &q->frames);
    taken = taken ? taken : flags_switch(f, "--threads", &q->threads);
    taken = taken ? taken : flags_switch(f, "--json", &q->json);
    taken = taken ? taken : flags_switch(f, "--all", &q->options.all);
    taken = taken ? taken : flags_switch(f, "--places", &q->options.places);
    taken = taken ? taken : flags_switch(f, "--uncorrected", &q->uncorrected);
    taken = taken ? taken : flags_switch(f, "--cpu-time", &q->cpu_time);
    taken = taken ? taken : flags_switch(f, "--wall", &q->wall);
    taken = taken ? taken : flags_time(f, "--budget", &q->budget_ns);
    taken = taken ? taken : take_heap(f, q);
    return taken ? taken : flags_top(f, &q->options.top);
}

/* Which report of a recording is meant: the one that is named, or the only one that has the given
 * flags. */
static int pick(struct flags *f, struct request *q)
{
    bool time = q->by && q->heap_options.by >= HEAP_BYS;
    bool memory = q->leaks || q->growth || q->peak || (q->by && !time);
    if (q->cpu + q->polls + q->heap > 1)
        return say_usage(f->command, "--heap, --cpu and --polls are reports; choose one");
    if ((memory && (q->cpu || q->polls)) || (q->polls && (q->tree || time)))
        return say_usage(f->command, "%s is not for %s",
                         q->leaks    ? "--leaks"
                         : q->growth ? "--growth"
                         : q->peak   ? "--peak"
                         : q->by     ? "that figure"
                                     : "--tree",
                         q->cpu ? "--cpu" : "--polls");
    if (time && q->heap)
        return say_usage(f->command, "--by cpu and --by off-cpu are not for --heap");
    q->cpu |= time;
    q->heap |= memory;
    return EXIT_DONE;
}

/* Chooses the heap report and checks for contradicting flags. */
static int settle(struct flags *f, struct request *q)
{
    struct heap_options *h = &q->heap_options;
    int modes = q->tree + q->leaks + q->growth + q->peak;
    bool moments = h->from != GROWTH_NOT_GIVEN || h->to != GROWTH_NOT_GIVEN;
    int status = pick(f, q);
    if (status != EXIT_DONE)
        return status;
    q->heap |= moments;
    bool recorded = q->heap || q->cpu || q->polls || q->tree;
    if (q->frames && q->threads)
        return say_usage(f->command, "--frames and --threads are two reports; choose one");
    if (q->budget_ns && q->threads)
        return say_usage(f->command, "--budget is for frames, not for --threads");
    if (recorded && (q->frames || (q->threads && !q->cpu) || q->uncorrected || q->options.places ||
                     q->budget_ns))
        return say_usage(f->command, "%s is not for %s",
                         q->frames        ? "--frames"
                         : q->threads     ? "--threads"
                         : q->uncorrected ? "--uncorrected"
                         : q->budget_ns   ? "--budget"
                                          : "--places",
                         q->polls ? "--polls"
                         : q->cpu ? "--cpu"
                                  : "heap recordings");
    if (q->cpu_time && q->wall)
        return say_usage(f->command, "--cpu-time and --wall are two orders; choose one");
    if (recorded && (q->cpu_time || q->wall))
        return say_usage(f->command, "%s is for functions and frames of a run",
                         q->wall ? "--wall" : "--cpu-time");
    q->options.rank = q->cpu_time ? REPORT_BY_CPU : q->wall ? REPORT_BY_WALL : REPORT_BY_EITHER;
    if (modes > 1)
        return say_usage(f->command,
                         "--tree, --leaks, --growth and --peak are reports; choose one");
    if (q->tree && q->threads)
        return say_usage(f->command, "--tree and --threads are two reports; choose one");
    if (moments && !q->growth)
        return say_usage(f->command, "--from and --to are for --growth");
    h->mode = q->tree     ? HEAP_TREE
              : q->leaks  ? HEAP_LEAKS
              : q->growth ? HEAP_GROWTH
              : q->peak   ? HEAP_AT_PEAK
                          : HEAP_SUMMARY;
    return EXIT_DONE;
}

static int parse(struct flags *f, struct request *q)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        enum flag_taken taken = take(f, q);
        int status =
            taken == FLAG_BAD ? EXIT_USAGE
            : taken == FLAG_YES
                ? EXIT_DONE
                : flags_word(f, "one run at a time; `piano diff` compares several", &q->run, 1);
        if (status != EXIT_DONE)
            return status;
    }
    return settle(f, q);
}

static int print(const struct request *q, const struct run *run)
{
    const struct report_options *o = &q->options;
    if (q->frames)
        return q->json ? report_frames_json(stdout, run, o) : report_frames(stdout, run, o);
    if (q->threads)
        return q->json ? report_threads_json(stdout, run, o) : report_threads(stdout, run, o);
    return q->json ? report_functions_json(stdout, run, o) : report_functions(stdout, run, o);
}

/* PATH is the other file of the same process. */
static void say_companion(const char *path, const char *what, const char *flag, const char *more)
{
    char safe[512];
    say("the same process %s: piano report %s%s%s", what, flag, say_safe(safe, sizeof(safe), path),
        more);
}

static int report_spans(const struct request *q, const char *path)
{
    struct run run;
    struct run_error error;
    struct run_options load = {
        .uncorrected = q->uncorrected, .threads = q->threads, .budget_ns = q->budget_ns};
    say_progress("reading %s", path);
    int err = run_load(&run, path, &load, &error);
    say_progress_done();
    if (err)
        return outcome_failed(err, &error);
    run.companion = companion_find(path);
    run_notices(&run, !q->threads);
    report_notice_busy(&run, q->options.rank);
    if (run.companion && !q->frames)
        say_companion(run.companion, "was recorded, too", "",
                      "; piano report --frames: what that knows of the worst frames");
    err = print(q, &run);
    run_unload(&run);
    return outcome_written("the report", err);
}

static int report_heap(const struct request *q, struct profile *heap)
{
    struct heap_growth growth = {.rows = NULL};
    struct heap_options options = q->heap_options;
    struct run_error error;
    int status, err = profile_make_sites(heap, &q->skip, &error);
    if (err == 0 && q->growth)
        err = heap_growth_make(&growth, heap, options.from, options.to, &error);
    if (err) {
        status = outcome_failed(err, &error);
    } else {
        options.growth = q->growth ? &growth : NULL;
        heap_notices(heap);
        err = q->json ? heap_report_json(stdout, heap, &options, &q->options)
                      : heap_report(stdout, heap, &options, &q->options);
        status = outcome_written("the report", err);
    }
    heap_growth_release(&growth);
    return status;
}

static int report_cpu(const struct request *q, struct profile *profile)
{
    struct cpu cpu;
    struct run_error error;
    struct cpu_options options = {.tree = q->tree || (q->by && !q->threads),
                                  .threads = q->threads,
                                  .off = q->heap_options.by == HEAP_OFF_CPU};
    int err = cpu_make(&cpu, profile, &error);
    if (err)
        return outcome_failed(err, &error);
    cpu_notices(&cpu);
    err = q->json ? cpu_report_json(stdout, &cpu, &options, &q->options)
                  : cpu_report(stdout, &cpu, &options, &q->options);
    cpu_release(&cpu);
    return outcome_written("the report", err);
}

static int report_polls(const struct request *q, struct profile *profile)
{
    struct polls polls;
    struct run_error error;
    size_t longest = q->options.all   ? POLLS_MAX_LONGEST
                     : q->options.top ? q->options.top
                                      : POLLS_TOP;
    int err = polls_make(&polls, profile, longest, &error);
    if (err)
        return outcome_failed(err, &error);
    polls_notices(&polls);
    err = q->json ? polls_report_json(stdout, &polls, &q->options)
                  : polls_report(stdout, &polls, &q->options);
    heap_notice_symbols(profile);
    polls_release(&polls);
    return outcome_written("the report", err);
}

/* ASKED (enum profile_instrument) is not in the recording. */
static int not_recorded(const char *path, unsigned asked)
{
    const char *what = asked == PROFILE_CPU      ? "CPU samples"
                       : asked == PROFILE_EVENTS ? "events"
                                                 : "heap samples";
    const char *hint = asked == PROFILE_CPU      ? "piano record --cpu -- PROGRAM"
                       : asked == PROFILE_EVENTS ? "piano record --events -- PROGRAM"
                                                 : "piano record --heap -- PROGRAM";
    return outcome_not_recorded(path, what, hint);
}

/* What to report (enum profile_instrument) of a recording with the instruments FOUND; 0: several. */
static unsigned instrument_of(const struct request *q, unsigned found)
{
    if (q->polls || q->cpu || q->threads || q->heap)
        return q->polls ? PROFILE_EVENTS : q->cpu || q->threads ? PROFILE_CPU : PROFILE_HEAP;
    if (q->tree)
        return found == PROFILE_CPU || found == (PROFILE_CPU | PROFILE_EVENTS) ? PROFILE_CPU
                                                                               : PROFILE_HEAP;
    if ((found & (found - 1)) == 0)
        return found ? found : PROFILE_HEAP;
    return 0;
}

static int report_profile(const struct request *q, struct profile *p)
{
    struct run_error error;
    unsigned asked = instrument_of(q, p->instruments);
    if (asked == 0) {
        int err = overview_report(stdout, p, q->run, q->json, &q->options, &error);
        return err ? outcome_failed(err, &error) : EXIT_DONE;
    }
    if (p->instruments && !(p->instruments & asked))
        return not_recorded(p->rec.path, asked);
    int err = profile_read(p, &error);
    if (err)
        return outcome_failed(err, &error);
    return asked == PROFILE_EVENTS ? report_polls(q, p)
           : asked == PROFILE_CPU  ? report_cpu(q, p)
                                   : report_heap(q, p);
}

static int report_recording(const struct request *q, const char *path)
{
    struct profile p;
    struct run_error error;
    int err = profile_peek(&p, path, &error);
    if (err)
        return outcome_failed(err, &error);
    int status = report_profile(q, &p);
    profile_close(&p);
    return status;
}

static int not_of_recordings(const char *path)
{
    char safe[512];
    return say_error("piano report, without that flag",
                     "%s is a recording: it has no frames or places of functions",
                     say_safe(safe, sizeof(safe), path));
}

static int not_a_recording(const struct request *q, const char *path)
{
    char safe[512];
    return say_error(q->polls ? "piano record --events -- PROGRAM"
                     : q->cpu ? "piano record --cpu -- PROGRAM"
                              : "piano record --heap -- PROGRAM",
                     "%s is not a recording: it has no %s", say_safe(safe, sizeof(safe), path),
                     q->polls ? "events"
                     : q->cpu ? "CPU samples"
                              : "heap samples");
}

static int report_path(const struct request *q, const char *path)
{
    bool recording = recording_is(path);
    if (!recording)
        return q->heap || q->cpu || q->polls || q->tree ? not_a_recording(q, path)
                                                        : report_spans(q, path);
    char *run = companion_find(path); /* it has the frames of the process */
    int status;
    if (run && q->frames) {
        status = report_spans(q, run);
    } else if (q->frames || q->uncorrected || q->options.places || q->cpu_time || q->wall ||
               q->budget_ns) {
        status = not_of_recordings(path);
    } else {
        if (run)
            say_companion(run, "was measured by function and frame, too", "--frames ", "");
        status = report_recording(q, path);
    }
    free(run);
    return status;
}

/* Flags that apply only to runs of instrumented programs. */
static bool is_of_runs(const struct request *q)
{
    return q->frames || q->threads || q->uncorrected || q->cpu_time || q->wall || q->budget_ns;
}

static int report(const struct request *q)
{
    struct run_error error;
    struct runs_paths paths;
    bool recorded = q->heap || q->cpu || q->polls || q->tree;
    enum runs_kind kind = recorded ? RUNS_RECORDING : is_of_runs(q) ? RUNS_SPANS : RUNS_ANY;
    int err = runs_resolve_kind(q->run, kind, &paths, &error);
    if (err)
        return outcome_failed(err, &error);
    int status;
    if (paths.count > 1 && strchr(q->run, ',')) {
        status = say_usage("report", "that names several runs; `piano diff` compares them");
    } else {
        const char *path = runs_paths_newest(&paths);
        char safe[512];
        if (paths.count > 1)
            say("the tag has %zu runs; this is the newest: %s", paths.count,
                say_safe(safe, sizeof(safe), path));
        status = report_path(q, path);
    }
    runs_paths_release(&paths);
    return status;
}

int cmd_report(int argc, char **argv)
{
    struct request q = {.heap_options = {.from = GROWTH_NOT_GIVEN, .to = GROWTH_NOT_GIVEN}};
    struct flags f = {"report", argc, argv, flag_names, 1};
    int status = parse(&f, &q);
    if (status != EXIT_DONE)
        return status;
    q.options.width = table_terminal(stdout);
    q.options.colour = say_colour(stdout);
    return report(&q);
}
