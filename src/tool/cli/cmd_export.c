/* `piano export`: a recording or a run in the format of another tool. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/export/export.h"
#include "tool/load/companion.h"
#include "tool/load/own.h"
#include "tool/load/runs.h"
#include "tool/report/cpu.h"
#include "tool/util/nearest.h"
#include "tool/util/output.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

struct format {
    const char *name;
    int (*write)(FILE *out, const struct export_source *s);
    bool is_binary;
    bool is_timeline;  /* events, waits and frames by time; --by is meaningless */
    bool has_all;      /* all figures, not only that of --by */
    bool has_tasks;    /* needs the polls */
    bool needs_stacks; /* is not for runs */
};

static const struct format formats[] = {
    {"speedscope", export_speedscope, .has_all = true},
    {"pprof", export_pprof, .is_binary = true, .has_all = true, .has_tasks = true},
    {"collapsed", export_collapsed, .has_all = false},
    {"chrome", export_chrome, .is_timeline = true, .has_all = true, .has_tasks = true},
    {"firefox", export_firefox, .is_timeline = true, .has_all = true, .has_tasks = true,
     .needs_stacks = true}};
#define FORMATS "speedscope, pprof, collapsed, chrome or firefox"
enum { FORMAT_COUNT = sizeof(formats) / sizeof(*formats) };

struct request {
    const struct format *format;
    int by; /* enum figure; < 0: not given */
    const char *output, *run;
    struct heap_skip skip;
    struct range_asked range;
    const char *process; /* NULL: all */
    bool force;
};

static int read_format(const struct flag_line *line, const char *text, void *field)
{
    const char *names[FORMAT_COUNT];
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        names[i] = formats[i].name;
        if (strcmp(text, names[i]) == 0) {
            *(const struct format **)field = &formats[i];
            return EXIT_DONE;
        }
    }
    const char *near = nearest_name(text, names, FORMAT_COUNT);
    if (near)
        return say_usage(line->command, "there is no format `%s`; did you mean `%s`?", line->safe,
                         near);
    return say_usage(line->command, "there is no format `%s`: " FORMATS, line->safe);
}

static const struct flag flags[] = {
    {"--format", "for https://www.speedscope.app",
     FLAG_READ("speedscope", read_format, const struct format *, format),
     .words = "speedscope pprof collapsed chrome firefox"},
    {"--format", "for `go tool pprof` and others that read profile.proto", .value = "pprof"},
    {"--format", "one line per stack, for flame graph scripts", .value = "collapsed"},
    {"--format",
     "events, CPU samples and frames on a timeline, for https://ui.perfetto.dev and "
     "chrome://tracing",
     .value = "chrome"},
    {"--format", "the same, for https://profiler.firefox.com", .value = "firefox"},
    {"--output", "the file to write; default: stdout", FLAG_TEXT("FILE", output), .alias = "-o",
     .complete = "file"},
    {"--force", "overwrite FILE", FLAG_SWITCH(force)},
    {"--by",
     "live, allocated or peak bytes; cpu or off-cpu time: the figure that the file opens with. "
     "Default: the first of them that was recorded; of a run, the self time",
     FLAG_READ("FIGURE", flag_by, int, by), .words = "live allocated peak cpu off-cpu"},
    {"--skip", "leave out a wrapper of malloc: stacks end at its caller. May be repeated",
     FLAG_READ("PATTERN", flag_skip, struct heap_skip, skip)},
    {"--no-skip", "keep every frame (the default without --skip)", FLAG_SWITCH(skip.none)},
    FLAGS_RANGE,
    FLAG_PROCESS,
    {0},
};

/* ---- the file ---- */

static int open_file(struct output *o, const struct request *q)
{
    *o = (struct output){.what = "the export", .path = q->output, .mode = 0666};
    bool to_stdout = !q->output || strcmp(q->output, "-") == 0;
    if (to_stdout && q->format->is_binary && isatty(STDOUT_FILENO) == 1)
        return say_error("-o FILE, or a pipe", "pprof is binary: not for a terminal");
    return output_open(o);
}

/* An empty export is not an error, but probably not what the user wanted. */
static void notice_empty(const struct recording *rec, const struct format *format, enum figure by)
{
    const enum figure others[] = {FIGURE_PEAK, FIGURE_ALLOCATED};
    char text[UNITS_LEN];
    if (figure_value(&rec->total, by) > 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        double there = figure_value(&rec->total, others[i]);
        if (there > 0) {
            say("%s is empty: nothing is %s, as far as sampled; %s with --by %s",
                format->has_all ? "what it opens with" : "the export", figure_names[by],
                figure_bytes(text, there), figure_names[others[i]]);
            return;
        }
    }
    say("the export is empty: nothing was sampled");
}

static int write_file(const struct request *q, const struct export_source *s)
{
    struct output file;
    int status = open_file(&file, q);
    return status == EXIT_DONE ? output_close(&file, q->format->write(file.out, s)) : status;
}

/* ---- a recording ---- */

/* The parts of a source, and what they need. */
struct parts {
    struct export_source source;
    struct cpu cpu;
    struct polls polls;
    struct run run;
    bool has_run;
};

static void release(struct parts *x)
{
    if (x->source.cpu)
        cpu_release(&x->cpu);
    if (x->source.polls)
        polls_release(&x->polls);
    if (x->has_run)
        run_unload(&x->run);
}

static bool is_part(const struct request *q)
{
    return q->range.from.given || q->range.to.given;
}

/* Whether the file contains the figures of the heap; those of the CPU. Memory is not known in a
 * range of time. */
static bool wants_heap(const struct request *q, const struct profile *p)
{
    if (q->format->is_timeline)
        return (p->instruments & PROFILE_HEAP) != 0; /* at snapshots */
    if (is_part(q) || own_is_hidden(&p->rec.header))
        return false;
    return q->by < FIGURES_OF_HEAP || (q->format->has_all && p->instruments & PROFILE_HEAP);
}

static bool wants_cpu(const struct request *q, const struct profile *p)
{
    return q->format->is_timeline || q->by >= FIGURES_OF_HEAP ||
           (q->format->has_all && p->instruments & PROFILE_CPU);
}

static int add_heap(struct parts *x, const struct request *q, struct profile *p)
{
    struct run_error error;
    x->source.heap = true;
    if (q->format->is_timeline)
        return EXIT_DONE;
    int err = profile_make_sites(p, &q->skip, &error);
    if (err)
        return outcome_failed(err, &error);
    if (q->skip.count > 0)
        heap_trim(p);
    heap_notices(p);
    if (q->by < FIGURES_OF_HEAP)
        notice_empty(&p->rec, q->format, (enum figure)q->by);
    return EXIT_DONE;
}

/* The frames of the run of the same process go on the timeline. A run that cannot be read is no
 * reason to fail: the user named the recording. */
static void add_run(struct parts *x, const char *path)
{
    const struct run_options all = {.threads = false};
    struct run_error error;
    char safe[512], *companion = companion_find(path);
    if (companion) {
        x->has_run = run_load(&x->run, companion, &all, &error) == 0;
        if (x->has_run)
            say("with %s, of the same process", say_safe(safe, sizeof(safe), companion));
        else
            say("without the frames of the same process: %s", error.text);
    }
    x->source.run = x->has_run ? &x->run : NULL;
    free(companion);
}

static int make_parts(struct parts *x, const struct request *q, struct profile *p)
{
    struct run_error error;
    int status = wants_heap(q, p) ? add_heap(x, q, p) : EXIT_DONE, err = 0;
    if (status != EXIT_DONE)
        return status;
    if (wants_cpu(q, p)) {
        err = cpu_make(&x->cpu, p, &error);
        x->source.cpu = err ? NULL : &x->cpu;
        if (err == 0 && !q->format->is_timeline)
            cpu_notices(&x->cpu);
    }
    if (err == 0 && q->format->has_tasks) {
        err = polls_start(&x->polls, p, 0, &error);
        x->source.polls = err ? NULL : &x->polls;
    }
    if (err == 0 && q->format->is_timeline)
        add_run(x, p->rec.path);
    return err ? outcome_failed(err, &error) : EXIT_DONE;
}

static int write_recording(const struct request *q, struct profile *p)
{
    struct parts x = {.source = {.profile = p, .figure = (enum figure)q->by}};
    int status = make_parts(&x, q, p);
    if (status == EXIT_DONE)
        status = write_file(q, &x.source);
    if (status == EXIT_DONE && q->format->is_timeline) {
        polls_notices(&x.polls);
        profile_notice_symbols(p);
    }
    release(&x);
    return status;
}

/* Whether P has what the format and the figure need. Prints why not. */
static int check(const struct request *q, const struct profile *p)
{
    const char *path = p->rec.path;
    unsigned found = p->instruments;
    bool has_snapshots = found & PROFILE_HEAP && p->rec.header.snapshots > 0;
    if (q->format->is_timeline)
        return !found || found & (PROFILE_CPU | PROFILE_EVENTS) || has_snapshots
                   ? EXIT_DONE
                   : outcome_not_recorded(path,
                                          "events, CPU samples or snapshots: there is no timeline",
                                          "piano record --events --cpu -- PROGRAM");
    if (q->by >= FIGURES_OF_HEAP)
        return !found || found & PROFILE_CPU
                   ? EXIT_DONE
                   : outcome_not_recorded(path, "CPU samples", "piano record --cpu -- PROGRAM");
    if ((found && !(found & PROFILE_HEAP)) || own_is_hidden(&p->rec.header))
        return outcome_not_recorded(path, "heap samples: there are no bytes to export",
                                    found & PROFILE_EVENTS && !(found & PROFILE_CPU)
                                        ? "piano export --format chrome"
                                        : "piano record --heap -- PROGRAM");
    if (is_part(q))
        return say_error("--by cpu, or piano report --heap --from TIME --to TIME",
                         "memory is only known at snapshots: it cannot be exported for a range of "
                         "time");
    return EXIT_DONE;
}

static int check_peak(const struct request *q, const struct profile *p)
{
    if (q->by == FIGURE_PEAK && !recording_is_one_heap(&p->rec))
        return say_error("piano export --process NAME|PID",
                         "the peak of several processes is not known");
    return EXIT_DONE;
}

static int export_recording(struct request *q, const char *path)
{
    struct profile p;
    struct run_error error;
    int err = profile_peek_all(&p, path, q->process, &error);
    if (err)
        return outcome_failed(err, &error);
    p.rec.asked = q->range;
    bool only_cpu = p.instruments & PROFILE_CPU && (is_part(q) || !(p.instruments & PROFILE_HEAP));
    if (q->by < 0)
        q->by = only_cpu || q->format->is_timeline ? FIGURE_CPU : FIGURE_LIVE;
    heap_notice_hidden(&p);
    int status = check(q, &p);
    if (status == EXIT_DONE) {
        err = profile_read(&p, &error);
        status = err ? outcome_failed(err, &error) : check_peak(q, &p);
    }
    if (status == EXIT_DONE)
        status = write_recording(q, &p);
    profile_close(&p);
    return status;
}

/* ---- a run ---- */

static int export_run(const struct request *q, const char *path)
{
    struct run run;
    struct run_error error;
    const struct run_options with_threads = {.threads = true};
    char safe[512];
    if (q->by >= 0 && q->by != FIGURE_ALLOCATED)
        return say_error("piano record --heap --cpu -- PROGRAM",
                         "%s is not a recording: it has self times, and bytes with --by allocated",
                         say_safe(safe, sizeof(safe), path));
    if (q->format->needs_stacks)
        return say_error("--format chrome, which the Firefox Profiler reads too",
                         "%s is not a recording: it has no stacks for --format %s",
                         say_safe(safe, sizeof(safe), path), q->format->name);
    if (is_part(q))
        return say_error("piano report --frames --from TIME --to TIME",
                         "a run is exported as a whole; a range of time is for recordings");
    say_progress("reading %s", path);
    int err = run_load(&run, path, &with_threads, &error);
    say_progress_done();
    if (err)
        return outcome_failed(err, &error);
    run_notices(&run, q->format->is_timeline);
    const struct export_source source = {
        .run = &run, .figure = q->by == FIGURE_ALLOCATED ? FIGURE_ALLOCATED : FIGURES};
    int status = write_file(q, &source);
    run_unload(&run);
    return status;
}

static int export(void *request)
{
    struct request *q = request;
    struct run_error error;
    struct runs_paths paths;
    if (!q->format)
        return say_usage("export", "--format " FORMATS " is needed");
    if (q->format->is_timeline && q->by >= 0)
        return say_usage("export", "--by is not for --format %s: all is in it", q->format->name);
    int status = output_check(q->output, q->force);
    if (status != EXIT_DONE)
        return status;
    int err = runs_resolve_kind(q->run, RUNS_RECORDING, &paths, &error);
    if (err)
        return outcome_failed(err, &error);
    const char *path = runs_paths_newest(&paths);
    if (paths.count > 1 && strchr(q->run, ','))
        status = say_usage("export", "one run at a time");
    else
        status = recording_is(path) ? export_recording(q, path) : export_run(q, path);
    runs_paths_release(&paths);
    return status;
}

const struct command command_export = {
    .name = "export",
    .summary = "write a run for Speedscope, pprof, flame graphs, Perfetto or Firefox",
    .usage = "piano export [RUN] --format FORMAT [-o FILE] [OPTIONS]",
    .about = "Writes a recording, or a run of an instrumented program, in the format of another "
             "tool. RUN is a file, a tag, an id, or nothing for the latest recording.",
    .flags = flags,
    .notes = "Weights are bytes or ns, and add up to what `piano report` says, also by function.",
    .examples = "piano export --format speedscope -o heap.json\n"
                "piano export before --format pprof -o heap.pb && go tool pprof -top heap.pb\n"
                "piano export --format collapsed --by allocated | flamegraph.pl > heap.svg\n"
                "piano export --format chrome -o trace.json",
    .words = {WORDS_LISTED, offsetof(REQUEST, run), "run", 1, "one run at a time"},
    .run = export,
    COMMAND_REQUEST(.by = -1),
};
