/* `piano report`: reads one run or recording and prints one of its reports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST struct report_request
#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/cli/requests.h"
#include "tool/load/companion.h"
#include "tool/load/own.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/report/cpu.h"
#include "tool/report/overview.h"
#include "tool/report/polls.h"
#include "tool/report/processes.h"
#include "tool/util/say.h"
#include "tool/util/table.h"

const struct flag report_flags[] = {
    {"--frames", "frame by frame: the worst and their neighbours, spikes marked",
     FLAG_SWITCH(frames), .others = "--threads",
     .clash = "--frames and --threads are two reports; choose one"},
    {"--budget",
     "a spike is a frame that took longer than this, as in 16.6ms (ns, us, ms, s); otherwise "
     "longer than twice the median",
     FLAG_TIME(budget_ns), .others = "--threads",
     .clash = "--budget is for frames, not for --threads"},
    {"--threads", "thread by thread", FLAG_SWITCH(threads)},
    {"--top", "the first N functions (with --frames: the N worst frames)", FLAG_COUNT(options.top)},
    {"--all", "everything: functions never called, every frame and thread",
     FLAG_SWITCH(options.all)},
    {"--places", "with file and line", FLAG_SWITCH(options.places)},
    {"--cpu-time", "rank by time on the CPU, and show it: waiting does not count",
     FLAG_SWITCH(cpu_time), .others = "--wall",
     .clash = "--cpu-time and --wall are two orders; choose one"},
    {"--wall", "rank by wall time even if functions wait", FLAG_SWITCH(wall)},
    {"--uncorrected",
     "self times as measured, with the cost of measuring still in them (without Total, which has "
     "no uncorrected value)",
     FLAG_SWITCH(uncorrected)},
    {"--json", "the same as JSON, all of it", FLAG_SWITCH(json)},
    {0},
};

#define ONE_REPORT "--heap, --cpu and --polls are reports; choose one"
#define ONE_VIEW "--tree, --leaks, --growth and --peak are reports; choose one"
static const struct flag flags[] = {
    {.include = report_flags},
    {.help = "\nOf a range of time, for recordings and --frames:"},
    FLAGS_RANGE,
    {.help = "\nOf recordings:"},
    FLAG_PROCESS,
    {.help = "\nOf events (`piano record --events`):"},
    {"--polls", "red flags, polls by task, the longest and what was in them", FLAG_SWITCH(polls)},
    {.help = "\nOf CPU samples (`piano record --cpu`):"},
    {"--cpu", "functions by CPU time", FLAG_SWITCH(cpu), .others = "--polls", .clash = ONE_REPORT},
    {"--threads", "the same thread by thread", .read = NULL},
    {"--tree", "the call tree; with --by off-cpu that of times off the CPU", FLAG_SWITCH(tree),
     .others = "--leaks --growth --peak", .clash = ONE_VIEW},
    {.help = "\nOf heap recordings (`piano record --heap`):"},
    {"--heap", "totals, then sites by live, allocated and churned bytes", FLAG_SWITCH(heap),
     .others = "--cpu --polls", .clash = ONE_REPORT},
    {"--tree", "the call tree, from the roots", .read = NULL},
    {"--leaks", "what was not freed, stack by stack", FLAG_SWITCH(leaks),
     .others = "--growth --peak", .clash = ONE_VIEW},
    {"--growth", "what changed between two snapshots; default: the first and the last",
     FLAG_SWITCH(growth), .others = "--peak", .clash = ONE_VIEW},
    {"--from", "with --growth: number of the earlier snapshot", .value = "N"},
    {"--to", "with --growth: number of the later snapshot; `end`: what the recording ended with",
     .value = "N"},
    {"--peak", "who held the memory at the peak", FLAG_SWITCH(peak)},
    {"--by",
     "live, allocated, peak or churn: for the tree and the first table (of CPU samples: cpu or "
     "off-cpu)",
     FLAG_READ("FIGURE", flag_by, int, by), .words = "live allocated peak churn cpu off-cpu"},
    {"--skip",
     "a wrapper of malloc: its memory counts for its caller. May be repeated; * and ? as in the "
     "shell",
     FLAG_READ("PATTERN", flag_skip, struct heap_skip, skip)},
    {"--no-skip",
     "the innermost frames are the sites, also in libraries and wrappers (xmalloc, ...)",
     FLAG_SWITCH(skip.none)},
    {0},
};

/* Which report of a recording is meant: the one that is named, or the only one that has the given
 * flags. */
static int pick(const char *command, struct report_request *q)
{
    bool given = q->by >= 0, time = q->by >= FIGURES_OF_HEAP;
    bool memory = q->leaks || q->growth || q->peak || (given && !time);
    if ((memory && (q->cpu || q->polls)) || (q->polls && (q->tree || time)))
        return say_usage(command, "%s is not for %s",
                         q->leaks    ? "--leaks"
                         : q->growth ? "--growth"
                         : q->peak   ? "--peak"
                         : given     ? "that figure"
                                     : "--tree",
                         q->cpu ? "--cpu" : "--polls");
    if (time && q->heap)
        return say_usage(command, "--by cpu and --by off-cpu are not for --heap");
    q->cpu |= time;
    q->heap |= memory;
    return EXIT_DONE;
}

static bool is_snapshot(const struct range_end *end)
{
    return !end->given || end->is_number || end->is_last;
}

static long snapshot_of(const struct range_end *end)
{
    enum { SECOND = 1000000000 };
    return !end->given ? GROWTH_NOT_GIVEN : end->is_last ? GROWTH_TO_END : end->ns / SECOND;
}

/* --from and --to: with --growth, numbers without a unit are those of snapshots. Memory is only
 * known at snapshots, so of a range of time its growth is shown. */
static int check_range(const char *command, struct report_request *q)
{
    struct range_asked *r = &q->range;
    if (!r->from.given && !r->to.given)
        return EXIT_DONE;
    if (q->growth && is_snapshot(&r->from) && is_snapshot(&r->to)) {
        q->heap_options.from = snapshot_of(&r->from);
        q->heap_options.to = snapshot_of(&r->to);
        *r = (struct range_asked){.from = {.given = false}};
        return EXIT_DONE;
    }
    if (q->heap && (q->tree || q->leaks || q->peak || q->by >= 0))
        return say_usage(
            command, "%s is of the whole recording; --from and --to show the growth of the heap",
            q->tree    ? "--tree"
            : q->leaks ? "--leaks"
            : q->peak  ? "--peak"
                       : "--by");
    q->growth |= q->heap;
    return EXIT_DONE;
}

/* Chooses the heap report and checks for contradicting flags. */
int report_check(const char *command, struct report_request *q)
{
    struct heap_options *h = &q->heap_options;
    int status = pick(command, q);
    if (status == EXIT_DONE)
        status = check_range(command, q);
    if (status != EXIT_DONE)
        return status;
    bool recorded = q->heap || q->cpu || q->polls || q->tree;
    if (recorded && (q->frames || (q->threads && !q->cpu) || q->uncorrected || q->options.places ||
                     q->budget_ns))
        return say_usage(command, "%s is not for %s",
                         q->frames        ? "--frames"
                         : q->threads     ? "--threads"
                         : q->uncorrected ? "--uncorrected"
                         : q->budget_ns   ? "--budget"
                                          : "--places",
                         q->polls ? "--polls"
                         : q->cpu ? "--cpu"
                                  : "heap recordings");
    if (recorded && (q->cpu_time || q->wall))
        return say_usage(command, "%s is for functions and frames of a run",
                         q->wall ? "--wall" : "--cpu-time");
    q->options.rank = q->cpu_time ? REPORT_BY_CPU : q->wall ? REPORT_BY_WALL : REPORT_BY_EITHER;
    if (q->tree && q->threads)
        return say_usage(command, "--tree and --threads are two reports; choose one");
    h->by_given = q->by >= 0;
    h->by = h->by_given ? (enum figure)q->by : FIGURE_LIVE;
    h->mode = q->tree     ? HEAP_TREE
              : q->leaks  ? HEAP_LEAKS
              : q->growth ? HEAP_GROWTH
              : q->peak   ? HEAP_AT_PEAK
                          : HEAP_SUMMARY;
    return EXIT_DONE;
}

static int print(const struct report_request *q, const struct run *run)
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

static int report_spans(const struct report_request *q, const char *path)
{
    struct run run;
    struct run_error error;
    struct run_options load = {.uncorrected = q->uncorrected,
                               .threads = q->threads,
                               .budget_ns = q->budget_ns,
                               .range = q->range};
    if (!q->frames && (q->range.from.given || q->range.to.given))
        return say_error(
            "piano report --frames --from 10s --to 12s",
            "functions have sums of the whole run; a range of time is for --frames and "
            "for recordings");
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

static int report_heap(const struct report_request *q, struct profile *heap)
{
    struct heap_growth growth = {.rows = NULL};
    struct heap_options options = q->heap_options;
    struct run_error error;
    bool is_growth = q->growth || heap->rec.range.given;
    options.mode = is_growth ? HEAP_GROWTH : options.mode;
    bool is_peak = options.mode == HEAP_AT_PEAK || options.by == FIGURE_PEAK;
    if ((is_growth || is_peak) && !recording_is_one_heap(&heap->rec))
        return say_error("piano report --process NAME|PID",
                         "the %s of several processes is not known", is_peak ? "peak" : "growth");
    int status, err = profile_make_sites(heap, &q->skip, &error);
    if (err == 0 && is_growth)
        err = heap_growth_make(&growth, heap, options.from, options.to, &error);
    if (err) {
        status = outcome_failed(err, &error);
    } else {
        options.growth = is_growth ? &growth : NULL;
        heap_notices(heap);
        err = q->json ? heap_report_json(stdout, heap, &options, &q->options)
                      : heap_report(stdout, heap, &options, &q->options);
        if (err == 0 && !q->json && !q->heap)
            err = processes_print(stdout, heap, NULL, &q->options);
        status = outcome_written("the report", err);
    }
    heap_growth_release(&growth);
    return status;
}

static int report_cpu(const struct report_request *q, struct profile *profile)
{
    struct cpu cpu;
    struct run_error error;
    struct cpu_options options = {.tree = q->tree || (q->by >= 0 && !q->threads),
                                  .threads = q->threads,
                                  .off = q->heap_options.by == FIGURE_OFF_CPU};
    int err = cpu_make(&cpu, profile, &error);
    if (err)
        return outcome_failed(err, &error);
    cpu_notices(&cpu);
    err = q->json ? cpu_report_json(stdout, &cpu, &options, &q->options)
                  : cpu_report(stdout, &cpu, &options, &q->options);
    if (err == 0 && !q->json && !q->cpu && profile->rec.family)
        err = processes_print(stdout, profile, NULL, &q->options);
    cpu_release(&cpu);
    return outcome_written("the report", err);
}

static int report_polls(const struct report_request *q, struct profile *profile)
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
    if (err == 0 && !q->json && !q->polls)
        err = processes_print(stdout, profile, &polls, &q->options);
    profile_notice_symbols(profile);
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
static unsigned instrument_of(const struct report_request *q, unsigned found)
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

static int report_hidden(const struct report_request *q, const struct profile *p)
{
    return outcome_written("the report", q->json ? heap_report_hidden_json(stdout, &p->rec)
                                                 : heap_report_hidden(stdout, &p->rec));
}

static int report_profile(const struct report_request *q, struct profile *p)
{
    struct run_error error;
    bool is_hidden = own_is_hidden(&p->rec.header);
    unsigned asked = instrument_of(q, p->instruments | (is_hidden ? PROFILE_HEAP : 0));
    if (asked == 0) {
        int err = overview_report(stdout, p, q->run, q->json, &q->options, &error);
        return err ? outcome_failed(err, &error) : EXIT_DONE;
    }
    if (p->instruments && !(p->instruments & asked) && !(is_hidden && asked == PROFILE_HEAP)) {
        profile_notice_reading(p);
        return not_recorded(p->rec.path, asked);
    }
    int err = profile_read(p, &error);
    if (err)
        return outcome_failed(err, &error);
    if (is_hidden && asked == PROFILE_HEAP)
        return report_hidden(q, p);
    return asked == PROFILE_EVENTS ? report_polls(q, p)
           : asked == PROFILE_CPU  ? report_cpu(q, p)
                                   : report_heap(q, p);
}

static int report_recording(const struct report_request *q, const char *path)
{
    struct profile p;
    struct run_error error;
    int err = profile_peek_all(&p, path, q->process, &error);
    if (err)
        return outcome_failed(err, &error);
    p.rec.asked = q->range;
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

static int not_a_recording(const struct report_request *q, const char *path)
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

static int report_path(const struct report_request *q, const char *path)
{
    bool recording = recording_is(path);
    char safe[512];
    if (!recording && q->process)
        return say_error("piano report, without --process",
                         "%s is a run of functions: it has one process",
                         say_safe(safe, sizeof(safe), path));
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
static bool is_of_runs(const struct report_request *q)
{
    return q->frames || q->threads || q->uncorrected || q->cpu_time || q->wall || q->budget_ns;
}

int report_show(struct report_request *q)
{
    struct run_error error;
    struct runs_paths paths;
    bool recorded = q->heap || q->cpu || q->polls || q->tree || q->process;
    enum runs_kind kind = recorded ? RUNS_RECORDING : is_of_runs(q) ? RUNS_SPANS : RUNS_ANY;
    q->options.width = table_terminal(stdout);
    q->options.colour = say_colour(stdout);
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

static int report(void *request)
{
    int status = report_check("report", request);
    return status == EXIT_DONE ? report_show(request) : status;
}

const struct command command_report = {
    .name = "report",
    .summary = "show where the time, the allocations and the memory went",
    .usage = "piano report [RUN] [OPTIONS]",
    .about = "Shows where the time and the allocations of a run went, or what was seen of a "
             "recorded program: its polls, its CPU time, its memory. RUN is a file, a tag, a run "
             "id, or nothing for the latest of the project. Of a tag with several runs, the newest "
             "is shown. A recording of several instruments has a summary of each; --polls, --cpu "
             "and --heap pick one.",
    .flags = flags,
    .examples = "piano report\npiano report --frames before\npiano report --budget 16.6ms\npiano "
                "report --polls --top 3\npiano report --cpu --tree\npiano report --heap --tree "
                "--by allocated\npiano report --json | jq '.functions[0]'",
    .words = {WORDS_LISTED, offsetof(REQUEST, run), "run", 1,
              "one run at a time; `piano diff` compares several"},
    .run = report,
    COMMAND_REQUEST(REPORT_DEFAULTS),
};
