/* `piano export`: a recording in the format of another tool. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/export/export.h"
#include "tool/load/runs.h"
#include "tool/report/cpu.h"
#include "tool/report/overview.h"
#include "tool/util/nearest.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static const char help_text[] =
    "Usage: piano export [RUN] --format FORMAT [-o FILE] [OPTIONS]\n"
    "\n"
    "Writes a recording in the format of another tool. RUN is a file, a tag, an id, or nothing\n"
    "for the latest recording.\n"
    "\n"
    "  --format speedscope  for https://www.speedscope.app\n"
    "  --format pprof       for `go tool pprof` and others that read profile.proto\n"
    "  --format collapsed   a line a stack, for flame graph scripts\n"
    "  --format chrome      events and CPU samples on a timeline, for https://ui.perfetto.dev and\n"
    "                       chrome://tracing\n"
    "  -o FILE, --output FILE\n"
    "                       where to; default is stdout\n"
    "  --force              even if FILE exists\n"
    "  --by FIGURE          live, allocated or peak bytes; cpu or off-cpu time. The default is "
    "the\n"
    "                       first of them that was recorded\n"
    "  --skip PATTERN       leaves wrappers of malloc out: stacks end with who called them\n"
    "  --no-skip            with every frame (so it is unless --skip is given)\n"
    "\n"
    "Weights are bytes, or ns of CPU samples, and add up to what `piano report` says.\n"
    "\n"
    "Examples:\n"
    "  piano export --format speedscope -o heap.json\n"
    "  piano export before --format pprof -o heap.pb && go tool pprof -top heap.pb\n"
    "  piano export --format collapsed --by allocated | flamegraph.pl > heap.svg\n"
    "  piano export --format chrome -o trace.json\n";

static const char *const flag_names[] = {"--format", "--output", "--force",   "--by",
                                         "--help",   "--skip",   "--no-skip", "-o"};

struct format {
    const char *name;
    int (*write)(FILE *out, const struct heap *heap, enum heap_by by); /* NULL: chrome */
    bool binary;
};

static const struct format formats[] = {{"speedscope", export_speedscope, false},
                                        {"pprof", export_pprof, true},
                                        {"collapsed", export_collapsed, false},
                                        {"chrome", NULL, false}};
enum { FORMAT_COUNT = sizeof(formats) / sizeof(*formats) };

struct request {
    const struct format *format;
    enum heap_by by;
    bool has_by;
    const char *output, *run;
    struct heap_skip skip;
    bool force, help;
};

static enum flag_taken take_format(struct flags *f, struct request *q)
{
    const char *text = NULL, *names[FORMAT_COUNT];
    char safe[64];
    enum flag_taken taken = flags_value(f, "--format", &text);
    if (taken != FLAG_YES)
        return taken;
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        names[i] = formats[i].name;
        if (strcmp(text, names[i]) == 0)
            q->format = &formats[i];
    }
    if (q->format)
        return FLAG_YES;
    const char *near = nearest_name(text, names, FORMAT_COUNT);
    say_safe(safe, sizeof(safe), text);
    if (near)
        say_usage(f->command, "there is no format `%s`; did you mean `%s`?", safe, near);
    else
        say_usage(f->command, "there is no format `%s`: speedscope, pprof, collapsed or chrome",
                  safe);
    return FLAG_BAD;
}

static enum flag_taken take_by(struct flags *f, struct request *q)
{
    enum flag_taken taken = flags_by(f, false, &q->by);
    q->has_by |= taken == FLAG_YES;
    return taken;
}

static int parse(struct flags *f, struct request *q)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        enum flag_taken taken = take_format(f, q);
        taken = taken ? taken : take_by(f, q);
        taken = taken ? taken : flags_value(f, "--output", &q->output);
        taken = taken ? taken : flags_value(f, "-o", &q->output);
        taken = taken ? taken : flags_switch(f, "--force", &q->force);
        taken = taken ? taken : flags_skip(f, &q->skip);
        taken = taken ? taken : flags_switch(f, "--help", &q->help);
        taken = taken ? taken : flags_switch(f, "-h", &q->help);
        int status = taken == FLAG_BAD ? EXIT_USAGE
                     : taken == FLAG_YES
                         ? EXIT_DONE
                         : flags_one_run(f, flag_names, sizeof(flag_names) / sizeof(*flag_names),
                                         "one recording at a time", &q->run);
        if (status != EXIT_DONE)
            return status;
    }
    if (!q->format && !q->help)
        return say_usage(f->command, "--format speedscope, pprof, collapsed or chrome is needed");
    if (q->format && !q->format->write && q->has_by)
        return say_usage(f->command, "--by is not for --format chrome: all is in it");
    return EXIT_DONE;
}

/* ---- the file ---- */

/* Where it is written to, and under what name until it is whole. */
struct target {
    FILE *out;
    char *temp; /* NULL: stdout, or something that is no regular file */
    const char *path;
};

static int open_failed(const char *path, int err)
{
    char safe[300];
    return say_error(NULL, "%s: %s", say_safe(safe, sizeof(safe), path), strerror(err));
}

static int open_target(struct target *t, const struct request *q)
{
    struct stat st;
    char safe[300];
    *t = (struct target){.out = stdout, .path = q->output};
    if (!q->output || strcmp(q->output, "-") == 0) {
        t->path = NULL;
        if (q->format->binary && isatty(STDOUT_FILENO) == 1)
            return say_error("-o FILE, or a pipe", "pprof is binary: not for a terminal");
        return EXIT_DONE;
    }
    bool exists = stat(q->output, &st) == 0;
    if (exists && S_ISREG(st.st_mode) && !q->force)
        return say_error("--force to write over it", "%s is there already",
                         say_safe(safe, sizeof(safe), q->output));
    if (exists && !S_ISREG(st.st_mode)) { /* a pipe, /dev/null */
        t->out = fopen(q->output, "we");
        return t->out ? EXIT_DONE : open_failed(q->output, errno);
    }
    struct buf name = {0};
    buf_printf(&name, "%s.tmp-%d", q->output, (int)getpid());
    t->temp = name.data;
    int fd = t->temp ? open(t->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    t->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (t->out)
        return EXIT_DONE;
    int status = open_failed(q->output, errno);
    if (fd >= 0)
        close(fd);
    free(t->temp);
    t->temp = NULL;
    return status;
}

/* ERR is what writing came to. The file appears under its name whole, or not at all. */
static int close_target(struct target *t, int err)
{
    char safe[300];
    if (!t->path)
        return err && !ferror(stdout) ? say_error(NULL, "the export stopped: %s", strerror(-err))
                                      : EXIT_DONE;
    if (fflush(t->out) != 0 && err == 0)
        err = -errno;
    if (fclose(t->out) != 0 && err == 0)
        err = -errno;
    if (err == 0 && t->temp && rename(t->temp, t->path) != 0)
        err = -errno;
    if (err && t->temp)
        unlink(t->temp);
    free(t->temp);
    if (err)
        return open_failed(t->path, -err);
    say("wrote %s", say_safe(safe, sizeof(safe), t->path));
    return EXIT_DONE;
}

/* Nothing to export is nothing wrong, but hardly what was wanted. */
static void notice_empty(const struct recording *rec, enum heap_by by)
{
    const enum heap_by others[] = {HEAP_PEAK, HEAP_ALLOCATED};
    char text[UNITS_LEN];
    if (heap_figure(&rec->total, by) > 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        double there = heap_figure(&rec->total, others[i]);
        if (there > 0) {
            say("the export is empty: nothing is %s, as far as was sampled; %s with --by %s",
                heap_by_names[by], heap_bytes(text, there), heap_by_names[others[i]]);
            return;
        }
    }
    say("the export is empty: nothing was sampled");
}

static int prepare(struct heap *heap, const struct request *q)
{
    int err = heap_resite(heap, &q->skip);
    if (err)
        return say_error(NULL, "the export stopped: %s", strerror(-err));
    if (q->skip.count > 0)
        heap_trim(heap);
    heap_notices(heap);
    notice_empty(&heap->rec, q->by);
    return EXIT_DONE;
}

/* ---- what is written ---- */

static int failed(const struct run_error *error)
{
    return say_error(error->hint[0] ? error->hint : NULL, "%s", error->text);
}

static int write_heap(const struct request *q, const char *path)
{
    struct heap heap;
    struct run_error error;
    struct target target;
    if (heap_load(&heap, path, &error) != 0)
        return failed(&error);
    int status = prepare(&heap, q);
    if (status == EXIT_DONE)
        status = open_target(&target, q);
    if (status == EXIT_DONE)
        status = close_target(&target, q->format->write(target.out, &heap, q->by));
    heap_unload(&heap);
    return status;
}

static int write_cpu(const struct request *q, const char *path)
{
    struct cpu cpu;
    struct run_error error;
    struct target target;
    if (cpu_load(&cpu, path, &error) != 0)
        return failed(&error);
    cpu_notices(&cpu);
    int status = open_target(&target, q);
    if (status == EXIT_DONE)
        status = close_target(&target, q->format->write(target.out, &cpu.named, q->by));
    cpu_unload(&cpu);
    return status;
}

static int write_chrome(const struct request *q, const char *path)
{
    struct polls polls;
    struct run_error error;
    struct target target;
    if (polls_open(&polls, path, 0, &error) != 0)
        return failed(&error);
    int status = open_target(&target, q);
    if (status == EXIT_DONE)
        status = close_target(&target, export_chrome(target.out, &polls));
    polls_notices(&polls);
    heap_notice_symbols(&polls.named);
    polls_unload(&polls);
    return status;
}

static int not_recorded(const char *path, const char *what, const char *hint)
{
    char safe[300];
    return say_error(hint, "%s has no %s", say_safe(safe, sizeof(safe), path), what);
}

static int export_path(struct request *q, const char *path)
{
    struct recording rec;
    struct run_error error;
    if (recording_peek(&rec, path, &error) != 0)
        return failed(&error);
    unsigned found = overview_instruments(&rec);
    recording_unload(&rec);
    if (!q->format->write)
        return found & (OVERVIEW_CPU | OVERVIEW_EVENTS) || !found
                   ? write_chrome(q, path)
                   : not_recorded(path, "events or CPU samples: there is no timeline",
                                  "piano record --events --cpu -- PROGRAM");
    if (!q->has_by && !(found & OVERVIEW_HEAP) && found & OVERVIEW_CPU)
        q->by = HEAP_CPU;
    if (q->by >= HEAP_BYS)
        return found & OVERVIEW_CPU || !found
                   ? write_cpu(q, path)
                   : not_recorded(path, "CPU samples", "piano record --cpu -- PROGRAM");
    return found & OVERVIEW_HEAP || !found
               ? write_heap(q, path)
               : not_recorded(path, "heap samples: there are no bytes to export",
                              found & OVERVIEW_EVENTS && !(found & OVERVIEW_CPU)
                                  ? "piano export --format chrome"
                                  : "piano record --heap -- PROGRAM");
}

static int export(struct request *q)
{
    struct run_error error;
    struct runs_paths paths;
    char safe[300];
    if (runs_resolve_kind(q->run, RUNS_RECORDING, &paths, &error) != 0)
        return failed(&error);
    const char *path = runs_paths_newest(&paths);
    int status = EXIT_DONE;
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

int cmd_export(int argc, char **argv)
{
    struct request q = {.by = HEAP_LIVE};
    struct flags f = {.command = "export", .argc = argc, .argv = argv};
    int status = parse(&f, &q);
    if (status != EXIT_DONE)
        return status;
    if (q.help) {
        fputs(help_text, stdout);
        return EXIT_DONE;
    }
    return export(&q);
}
