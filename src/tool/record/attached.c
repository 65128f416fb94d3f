/* A process that runs already. The CPU is sampled from outside. For the heap and for events,
 * libpiano.so is loaded into the process (tool/attach), and taken out of use again at the end.
 *
 *   check       what can be recorded; the process is not touched
 *   attach      loads the library
 *   create      the file, which the library gets as a descriptor
 *   watch       until a signal, the time limit, or the end of the process
 *   stop        the library takes its hooks out
 *   finish      names, summary
 *
 * If nothing was asked for in particular, whatever is possible is recorded. */
#include "tool/record/attached.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool/attach/attach.h"
#include "tool/load/own.h"
#include "tool/record/create.h"
#include "tool/record/finish.h"
#include "tool/record/launch.h"
#include "tool/record/destination.h"
#include "tool/record/perf.h"
#include "tool/record/recordings.h"
#include "tool/record/stripped.h"
#include "tool/record/watch.h"
#include "tool/util/say.h"

struct visit {
    struct record *record;
    struct sampler *cpu; /* NULL: not sampled */
    struct attach attach;
    bool is_inside; /* the library is loaded and records */
    const char *path;
    uint64_t since_ns;
    const struct launch_signals *signals;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool wants_inside(const struct record *r)
{
    return r->heap || r->events;
}

/* CPU samples ---------------------------------------------------------------------------------- */

static int say_no_sampling(pid_t pid, int err)
{
    const char *hint;
    const char *why = perf_why(err, &hint);
    if (err == -ESRCH)
        return say_error("ps -e", "there is no process %d", (int)pid);
    if (err == -EACCES || err == -EPERM)
        return say_error(
            "the same as root, or as the user whose process it is",
            "process %d may not be sampled: it is another user's, or has gained rights", (int)pid);
    return say_error(hint, "cannot sample process %d: %s", (int)pid, why);
}

/* Samples from now on. Without CPU samples, the rest is recorded. */
static int begin_cpu(struct visit *v)
{
    const char *hint;
    if (!v->cpu)
        return EXIT_DONE;
    int err = sampler_attach(v->cpu, v->record->pid);
    if (err == 0)
        return EXIT_DONE;
    if (!v->is_inside)
        return say_no_sampling(v->record->pid, err);
    say("no CPU samples are taken: %s", perf_why(err, &hint));
    v->record->cpu_err = err;
    record_free_cpu(v->cpu);
    v->cpu = NULL;
    return EXIT_DONE;
}

/* The library ---------------------------------------------------------------------------------- */

/* Returns whether to go on without the library. Prints why it cannot be used. */
static bool do_without(struct visit *v)
{
    const struct attach_failure *f = &v->attach.failure;
    const char *hint = *f->hint ? f->hint : NULL;
    if (!v->record->is_all || !v->cpu || flight_is_asked(&v->record->flight)) {
        say_error(hint, "%s", f->why);
        return false;
    }
    v->record->heap = v->record->events = false;
    say("only the CPU is sampled: %s", f->why);
    return true;
}

/* The same without the heap alone, if that is what cannot be recorded. */
static bool do_without_heap(struct visit *v)
{
    if (!v->attach.failure.is_heap || !v->record->is_all || !v->record->heap)
        return false;
    v->record->heap = false;
    say("the heap is not recorded: %s", v->attach.failure.why);
    return true;
}

static bool load(struct visit *v)
{
    const struct record *r = v->record;
    if (!wants_inside(r))
        return true;
    char *library = record_find_library();
    bool loaded = library && attach_open(&v->attach, r->pid, library, r->heap);
    if (!library)
        attach_fail(&v->attach.failure, "make, or make install", "there is no libpiano.so");
    else if (!loaded && do_without_heap(v))
        loaded = attach_open(&v->attach, r->pid, library, false);
    free(library);
    return loaded || do_without(v);
}

static int create(const struct visit *v)
{
    char safe[PATH_MAX];
    bool is_inside = v->attach.socket >= 0;
    int err = create_recording(v->path, v->record->pid, v->since_ns, v->record->max_bytes,
                               is_inside ? PIANO_REC_ATTACHED : PIANO_REC_HAS_CPU);
    if (err != 0)
        return say_error(NULL, "cannot make the recording %s: %s",
                         say_safe(safe, sizeof safe, v->path), strerror(-err));
    return EXIT_DONE;
}

static bool begin_inside(struct visit *v)
{
    const struct record *r = v->record;
    bool is_alone = !r->heap && !r->cpu;
    const struct attach_wish wish = {
        .heap_rate = r->heap ? r->heap_rate : 0,
        .maps = r->maps,
        .events = r->events,
        .cpu = v->cpu != NULL,
        .max_bytes = r->max_bytes,
        .max_event_bytes = is_alone ? r->max_bytes / 4 * 3 : r->max_bytes / 2,
    };
    int fd = open(v->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        attach_fail(&v->attach.failure, NULL, "cannot open the recording: %s", strerror(errno));
    v->is_inside = fd >= 0 && attach_start(&v->attach, fd, v->path, &wish);
    if (fd >= 0)
        close(fd);
    return v->is_inside;
}

/* The library is in the process, and has no symbols to see that an allocator is in the executable.
 * Returns whether to go on. */
static bool check_allocator(struct visit *v)
{
    char path[PATH_MAX], notice[OWN_NOTICE];
    struct piano__rec_header h;
    struct recording one = {.path = path, .pid = v->record->pid, .image = 1};
    const struct recordings list = {.program = one.pid, .list = &one, .count = 1};
    snprintf(path, sizeof path, "%s", v->path);
    if (!v->record->heap)
        return true;
    stripped_look(&list);
    if (recordings_header(path, &h) != 0 || !own_is_hidden(&h))
        return true;
    if (v->record->is_all) {
        say("%s", own_notice(notice, &h));
        return true;
    }
    attach_fail(&v->attach.failure, ATTACH_WITHOUT_HEAP, "%s", own_notice(notice, &h));
    return false;
}

static void leave(struct visit *v)
{
    bool lingers;
    const struct attach_failure failure = v->attach.failure;
    if (v->is_inside)
        (void)attach_stop(&v->attach, &lingers);
    attach_close(&v->attach);
    v->is_inside = false;
    v->attach.failure = failure;
}

/* Begins inside the process. What fails and may be left out needs another recording. */
static int begin_or_do_without(struct visit *v)
{
    if (v->attach.socket < 0)
        return EXIT_DONE;
    if (!begin_inside(v) && do_without_heap(v)) {
        unlink(v->path);
        int status = create(v);
        if (status != EXIT_DONE)
            return status;
        (void)begin_inside(v);
    }
    if (v->is_inside && check_allocator(v))
        return EXIT_DONE;
    leave(v);
    unlink(v->path);
    return do_without(v) ? create(v) : EXIT_FAILED;
}

/* Creates the recording and begins. Leaves no file behind if that fails. */
static int begin(struct visit *v)
{
    char safe[PATH_MAX];
    int status = create(v);
    if (status == EXIT_DONE)
        status = begin_or_do_without(v);
    if (status != EXIT_DONE)
        return status;
    status = begin_cpu(v);
    int err = status == EXIT_DONE && v->cpu ? journal_move(&v->cpu->journal, v->path) : 0;
    if (err != 0)
        status = say_error(NULL, "cannot make the recording %s: %s",
                           say_safe(safe, sizeof safe, v->path), strerror(-err));
    if (v->cpu)
        v->cpu->is_owner = !v->is_inside;
    if (status != EXIT_DONE)
        unlink(v->path);
    return status;
}

/* The whole ------------------------------------------------------------------------------------ */

static void say_begun(const struct visit *v)
{
    char stood[80] = "";
    const char *what = v->is_inside ? "recording" : "sampling";
    if (v->is_inside)
        snprintf(stood, sizeof stood, " (one thread at a time stood still, for %.1f ms at most)",
                 (double)v->attach.longest_ns / 1e6);
    if (v->signals->ignores_int)
        say("%s process %d%s; kill -TERM %d stops %s, the process keeps running", what,
            (int)v->record->pid, stood, (int)getpid(), what);
    else
        say("%s process %d%s; Ctrl-C stops %s, the process keeps running", what,
            (int)v->record->pid, stood, what);
}

static void end_inside(struct visit *v, bool has_ended)
{
    bool lingers = false;
    if (!v->is_inside)
        return;
    if (!attach_stop(&v->attach, &lingers) && !has_ended)
        say("%s; its recording may lack its end", v->attach.failure.why);
    else if (lingers)
        say("a thread of process %d has not left the recording yet: its memory stays mapped, and "
            "another recording has to wait for it",
            (int)v->record->pid);
}

/* For `piano top`. */
static void tell(const struct record *r, const char *path)
{
    if (r->tell > 0)
        dprintf(r->tell, "%d %s\n", (int)r->pid, path);
}

static int record_process(struct visit *v)
{
    struct recordings recordings;
    if (!load(v))
        return EXIT_FAILED;
    int status = begin(v);
    if (status != EXIT_DONE) {
        attach_close(&v->attach);
        return status;
    }
    say_begun(v);
    char *path = strdup(v->path);
    if (!path)
        return say_error(NULL, "out of memory");
    recordings_init(&recordings, path, v->record->pid, false, v->since_ns);
    struct watch watch;
    tell(v->record, v->path);
    bool has_ended = watch_process(v->record, &recordings, v->is_inside ? v->attach.socket : -1,
                                   v->cpu, v->signals, &watch);
    end_inside(v, has_ended);
    if (v->cpu)
        sampler_drain(v->cpu, true);
    finish_attached(v->record, &recordings, v->cpu, &watch);
    recordings_release(&recordings);
    return EXIT_DONE;
}

int attached_run(struct record *r)
{
    struct launch_signals signals;
    struct destination to = {0};
    launch_take_signals(&signals);
    struct visit v = {
        .record = r, .attach = {.socket = -1}, .signals = &signals, .since_ns = now_ns()};
    v.cpu = r->cpu ? record_prepare_cpu(r, NULL) : NULL;
    int status = v.cpu || wants_inside(r) ? destination_prepare(&to, r->output) : EXIT_FAILED;
    char *path = status == EXIT_DONE ? destination_path(&to, r->pid) : NULL;
    v.path = path;
    if (path)
        status = record_process(&v);
    launch_give_signals_back(&signals);
    record_free_cpu(v.cpu);
    free(path);
    destination_release(&to);
    return status;
}
