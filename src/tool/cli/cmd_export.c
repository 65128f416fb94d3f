/* `piano export`: a recording in the format of another tool. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/export/export.h"
#include "tool/load/own.h"
#include "tool/load/runs.h"
#include "tool/report/cpu.h"
#include "tool/util/nearest.h"
#include "tool/util/output.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

struct format {
    const char *name;
    int (*write)(FILE *out, const struct profile *heap, enum figure by); /* NULL: chrome */
    bool binary;
    bool has_all; /* writes all figures, not only that of --by */
};

static const struct format formats[] = {{"speedscope", export_speedscope, false, true},
                                        {"pprof", export_pprof, true, true},
                                        {"collapsed", export_collapsed, false, false},
                                        {"chrome", NULL, false, true}};
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
    return say_usage(line->command,
                     "there is no format `%s`: speedscope, pprof, collapsed or chrome", line->safe);
}

static const struct flag flags[] = {
    {"--format", "for https://www.speedscope.app",
     FLAG_READ("speedscope", read_format, const struct format *, format),
     .words = "speedscope pprof collapsed chrome"},
    {"--format", "for `go tool pprof` and others that read profile.proto", .value = "pprof"},
    {"--format", "one line per stack, for flame graph scripts", .value = "collapsed"},
    {"--format",
     "events and CPU samples on a timeline, for https://ui.perfetto.dev and chrome://tracing",
     .value = "chrome"},
    {"--output", "the file to write; default: stdout", FLAG_TEXT("FILE", output), .alias = "-o",
     .complete = "file"},
    {"--force", "overwrite FILE", FLAG_SWITCH(force)},
    {"--by",
     "live, allocated or peak bytes; cpu or off-cpu time. Default: the first of them that was "
     "recorded",
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
    if (to_stdout && q->format->binary && isatty(STDOUT_FILENO) == 1)
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

static int prepare(struct profile *heap, const struct request *q)
{
    struct run_error error;
    int err = profile_make_sites(heap, &q->skip, &error);
    if (err)
        return outcome_failed(err, &error);
    if (q->skip.count > 0)
        heap_trim(heap);
    heap_notices(heap);
    notice_empty(&heap->rec, q->format, q->by);
    return EXIT_DONE;
}

/* ---- writers ---- */

static int write_heap(const struct request *q, struct profile *heap)
{
    struct output file;
    int status = prepare(heap, q);
    if (status == EXIT_DONE)
        status = open_file(&file, q);
    if (status == EXIT_DONE)
        status = output_close(&file, q->format->write(file.out, heap, q->by));
    return status;
}

static int write_cpu(const struct request *q, struct profile *p)
{
    struct cpu cpu;
    struct run_error error;
    struct output file;
    int err = cpu_make(&cpu, p, &error);
    if (err)
        return outcome_failed(err, &error);
    cpu_notices(&cpu);
    int status = open_file(&file, q);
    if (status == EXIT_DONE)
        status = output_close(&file, q->format->write(file.out, p, q->by));
    cpu_release(&cpu);
    return status;
}

static int write_chrome(const struct request *q, struct profile *p)
{
    struct polls polls;
    struct run_error error;
    struct output file;
    int err = polls_start(&polls, p, 0, &error);
    if (err)
        return outcome_failed(err, &error);
    int status = open_file(&file, q);
    if (status == EXIT_DONE)
        status = output_close(&file, export_chrome(file.out, &polls));
    polls_notices(&polls);
    profile_notice_symbols(p);
    polls_release(&polls);
    return status;
}

static int write_profile(struct request *q, struct profile *p)
{
    const char *path = p->rec.path;
    unsigned found = p->instruments;
    int (*write)(const struct request *q, struct profile *p) = write_heap;
    struct run_error error;
    bool is_part = q->range.from.given || q->range.to.given;
    if (q->by < 0 && is_part && found & PROFILE_CPU)
        q->by = FIGURE_CPU;
    if (q->by < 0)
        q->by = !(found & PROFILE_HEAP) && found & PROFILE_CPU ? FIGURE_CPU : FIGURE_LIVE;
    heap_notice_hidden(p);
    if (!q->format->write) {
        write = write_chrome;
        if (found && !(found & (PROFILE_CPU | PROFILE_EVENTS)))
            return outcome_not_recorded(path, "events or CPU samples: there is no timeline",
                                        "piano record --events --cpu -- PROGRAM");
    } else if (q->by >= FIGURES_OF_HEAP) {
        write = write_cpu;
        if (found && !(found & PROFILE_CPU))
            return outcome_not_recorded(path, "CPU samples", "piano record --cpu -- PROGRAM");
    } else if ((found && !(found & PROFILE_HEAP)) || own_is_hidden(&p->rec.header)) {
        return outcome_not_recorded(path, "heap samples: there are no bytes to export",
                                    found & PROFILE_EVENTS && !(found & PROFILE_CPU)
                                        ? "piano export --format chrome"
                                        : "piano record --heap -- PROGRAM");
    }
    if (is_part && write == write_heap)
        return say_error("--by cpu, or piano report --heap --from TIME --to TIME",
                         "memory is only known at snapshots: it cannot be exported for a range of "
                         "time");
    int err = profile_read(p, &error);
    if (err)
        return outcome_failed(err, &error);
    if (write == write_heap && q->by == FIGURE_PEAK && !recording_is_one_heap(&p->rec))
        return say_error("piano export --process NAME|PID",
                         "the peak of several processes is not known");
    return write(q, p);
}

static int export_path(struct request *q, const char *path)
{
    struct profile p;
    struct run_error error;
    int err = profile_peek_all(&p, path, q->process, &error);
    if (err)
        return outcome_failed(err, &error);
    p.rec.asked = q->range;
    int status = write_profile(q, &p);
    profile_close(&p);
    return status;
}

static int export(void *request)
{
    struct request *q = request;
    struct run_error error;
    struct runs_paths paths;
    char safe[300];
    if (!q->format)
        return say_usage("export", "--format speedscope, pprof, collapsed or chrome is needed");
    if (!q->format->write && q->by >= 0)
        return say_usage("export", "--by is not for --format chrome: all is in it");
    int status = output_check(q->output, q->force);
    if (status != EXIT_DONE)
        return status;
    int err = runs_resolve_kind(q->run, RUNS_RECORDING, &paths, &error);
    if (err)
        return outcome_failed(err, &error);
    const char *path = runs_paths_newest(&paths);
    if (paths.count > 1 && strchr(q->run, ','))
        status = say_usage("export", "one recording at a time");
    else if (!recording_is(path))
        status = say_error("piano record --heap -- PROGRAM",
                           "%s is not a recording: there are no stacks to export",
                           say_safe(safe, sizeof(safe), path));
    else
        status = export_path(q, path);
    runs_paths_release(&paths);
    return status;
}

const struct command command_export = {
    .name = "export",
    .summary = "write a recording for Speedscope, pprof, flame graphs or Perfetto",
    .usage = "piano export [RUN] --format FORMAT [-o FILE] [OPTIONS]",
    .about = "Writes a recording in the format of another tool. RUN is a file, a tag, an id, or "
             "nothing for the latest recording.",
    .flags = flags,
    .notes = "Weights are bytes, or ns of CPU samples, and add up to what `piano report` says.",
    .examples = "piano export --format speedscope -o heap.json\n"
                "piano export before --format pprof -o heap.pb && go tool pprof -top heap.pb\n"
                "piano export --format collapsed --by allocated | flamegraph.pl > heap.svg\n"
                "piano export --format chrome -o trace.json",
    .words = {WORDS_LISTED, offsetof(REQUEST, run), "run", 1, "one recording at a time"},
    .run = export,
    COMMAND_REQUEST(.by = -1),
};
