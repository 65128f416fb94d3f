/* `piano record`, from the command line to the last message:
 *
 *   image       checks that the program can be recorded
 *   destination checks that the recording can be created
 *   cpu         checks that it can be sampled from outside; perf opens events before its exec
 *   launch      starts the program, with libpiano.so preloaded if it is to be recorded from inside
 *   watch       until it ends: snapshots, samples, signals, time limit (with view, series)
 *   finish      exit status, names of the files, summary
 *
 * All foreseeable errors are reported before the program starts, and then it does not start. Once
 * it runs, no failure here may harm it, and its exit status is ours. */
#include "tool/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/record/attached.h"
#include "tool/record/sampler.h"
#include "tool/record/create.h"
#include "tool/record/finish.h"
#include "tool/util/image.h"
#include "tool/record/interpreter.h"
#include "tool/record/launch.h"
#include "tool/record/destination.h"
#include "tool/record/perf.h"
#include "tool/record/recordings.h"
#include "tool/util/unstarted.h"
#include "tool/record/watch.h"
#include "tool/util/once.h"
#include "tool/util/paths.h"
#include "tool/util/preload.h"
#include "tool/util/say.h"

/* The path of libpiano.so for LD_PRELOAD, malloc'd; NULL after printing an error. */
char *record_find_library(void)
{
    char safe[PATH_MAX];
    char *dir = paths_lib_dir();
    char *plain = dir ? preload_dir(dir) : NULL;
    char *path = plain ? paths_join(plain, "libpiano.so") : NULL;
    if (!dir) {
        char *tool = paths_tool();
        char *slash = tool ? strrchr(tool, '/') : NULL;
        if (slash)
            *slash = '\0';
        say_safe(safe, sizeof safe, tool ? tool : "");
        say_error("make, or make install",
                  "libpiano.so is neither in %s/lib nor in %s/../lib/piano", safe, safe);
        free(tool);
    }
    free(dir);
    free(plain);
    return path;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sampling from outside ------------------------------------------------------------------------ */

/* Reports which of the requested samples the kernel refuses to this user. How to enable them is
 * printed once; the last line of each recording says what is missing. With --kernel the user asked
 * for the missing part, so it is printed each time. */
static void say_limits(const struct record *r, const struct perf_wish *w)
{
    char level[24];
    if (w->without_kernel) {
        snprintf(level, sizeof level, "%d", perf_paranoid());
        finish_limits("own code only");
        if (once_was_said("paranoid", level) && !r->kernel)
            return;
        say("CPU samples show the program's own code only: not %sthe kernel's work for it, nor the "
            "stacks of threads that wait (kernel.perf_event_paranoid is %s)",
            r->kernel ? "the frames of the kernel, " : "", level);
        say("to see these too: " PERF_CURE "   (piano doctor says this again)");
    } else if (w->without_switches) {
        say("threads that wait have no stacks: the kernel has no event for context switches");
    }
}

/* Does ERR mean that perf is not available at all? Then timers in the program replace it. */
static bool is_refusal(int err)
{
    return err == -EACCES || err == -EPERM || err == -ENOSYS;
}

static void say_inside(const struct record *r, const char *why, const char *hint)
{
    say("CPU samples are taken by timers in the program%s, without waits%s: %s",
        r->children ? "" : " itself, not in processes it starts",
        r->kernel ? " and the kernel's frames" : "", why);
    if (hint && !once_was_said("perf", hint))
        say("for samples from outside: %s", hint);
}

/* Prepares to sample IMAGE (NULL: a process that already runs), malloc'd. NULL after printing an
 * error when that fails. Sets `cpu_inside` if the program has to sample itself. */
struct sampler *record_prepare_cpu(struct record *r, const char *image)
{
    const char *hint;
    if (image && !r->kernel && interpreter_is_python(image)) {
        r->cpu_inside = true;
        say_inside(r, "it is Python, and only the interpreter itself can name its functions", NULL);
        return NULL;
    }
    struct sampler *cpu = malloc(sizeof *cpu);
    int err = cpu ? sampler_init(cpu, r->cpu_hz, r->kernel) : -ENOMEM;
    if (err == 0) {
        say_limits(r, &cpu->wish);
        return cpu;
    }
    const char *why = perf_why(err, &hint);
    bool is_inside = is_refusal(err) && r->pid == 0;
    r->cpu_err = is_inside ? 0 : err;
    if (is_inside) {
        r->cpu_inside = true;
        say_inside(r, why, hint);
    } else if (r->heap || r->events) {
        say("no CPU samples are taken, all else is recorded: %s", why);
        if (hint)
            say("for CPU samples: %s", hint);
    } else {
        say_error(hint, "cannot sample the CPU: %s", why);
    }
    free(cpu);
    return NULL;
}

void record_free_cpu(struct sampler *cpu)
{
    if (cpu)
        sampler_release(cpu);
    free(cpu);
}

/* Tells `piano top` what is recorded, and where. */
static void tell(const struct record *r, pid_t pid, const char *path)
{
    if (r->tell > 0)
        dprintf(r->tell, "%d %s\n", (int)pid, path);
}

/* Running a program ---------------------------------------------------------------------------- */

/* The program, from fork to its end. */
struct session {
    const struct record *record;
    const char *image;
    const char *library; /* NULL: nothing is preloaded */
    const struct destination *output;
    const struct launch_signals *signals;
    struct sampler *cpu; /* NULL: not sampled */
    int cpu_err;
};

static void before_exec(void *ctx, pid_t pid)
{
    struct session *s = ctx;
    if (s->cpu && !image_gains_rights(s->image))
        s->cpu_err = sampler_await(s->cpu, pid);
}

/* A program that gains privileges by exec loses all events opened before; they can be opened again
 * afterwards. */
static void after_exec(struct session *s, pid_t pid)
{
    const char *hint;
    if (s->cpu && !s->cpu->is_open && s->cpu_err == 0)
        s->cpu_err = sampler_attach(s->cpu, pid);
    if (s->cpu_err == -ESRCH) /* it has ended already */
        s->cpu_err = 0;
    if (s->cpu && s->cpu_err != 0)
        say("no CPU samples are taken: %s", perf_why(s->cpu_err, &hint));
}

/* Creates the recording for a program without our library, which cannot create one itself. */
static void make_recording(const struct session *s, const struct recordings *recordings)
{
    char safe[PATH_MAX];
    if (!s->cpu)
        return;
    int err = create_recording(recordings->path, recordings->program, recordings->since_ns,
                               s->record->max_bytes, PIANO_REC_HAS_CPU);
    if (err == 0)
        err = journal_move(&s->cpu->journal, recordings->path);
    if (err != 0)
        say_error(NULL, "cannot make the recording %s: %s",
                  say_safe(safe, sizeof safe, recordings->path), strerror(-err));
    else
        s->cpu->is_owner = true;
}

/* The library could not be loaded or could not write, so keep the CPU samples. */
static void save_samples(const struct session *s, const struct recordings *recordings)
{
    char safe[PATH_MAX];
    if (!s->cpu || s->cpu->journal.path || s->cpu->journal.samples.count == 0)
        return;
    say("%s left no recording: libpiano.so was not loaded into it, or could not write; its CPU "
        "samples are all there is",
        say_safe(safe, sizeof safe, s->record->words[0]));
    make_recording(s, recordings);
}

/* Did the loader end the program before it started? Prints the reason. A program that has created a
 * recording did start. */
static bool is_unstarted(const struct session *s, struct recordings *recordings, int status)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) != UNSTARTED_STATUS)
        return false;
    recordings_find(recordings);
    bool is_ours = s->cpu && s->cpu->is_owner;
    return (recordings->count == 0 || is_ours) &&
           unstarted_say(s->record->words[0], s->image, environ);
}

static int run(struct session *s)
{
    struct recordings recordings;
    struct watch watch;
    pid_t pid;
    const struct record *r = s->record;
    const struct launch_plan plan = {r,          s->image,    s->library, s->output,
                                     s->signals, before_exec, s};
    uint64_t since = now_ns();
    int err = launch(&plan, &pid);
    if (err != 0)
        return unstarted_say_exec(s->image, err);
    after_exec(s, pid);
    char *path = destination_path(s->output, pid);
    if (!path) { /* out of memory: only wait for the program */
        waitpid(pid, &watch.status, 0);
        return say_error(NULL, "out of memory");
    }
    recordings_init(&recordings, path, pid, r->children, since);
    if (!s->library)
        make_recording(s, &recordings);
    tell(r, pid, recordings.path);
    watch_program(r, &recordings, s->cpu, s->signals, &watch);
    if (is_unstarted(s, &recordings, watch.status)) {
        if (s->cpu && s->cpu->is_owner)
            unlink(recordings.path);
    } else {
        save_samples(s, &recordings);
        finish(r, &recordings, s->cpu, &watch, s->cpu_err);
    }
    recordings_release(&recordings);
    if (watch.timed_out)
        return EXIT_DONE;
    return WIFSIGNALED(watch.status) ? 128 + WTERMSIG(watch.status) : WEXITSTATUS(watch.status);
}

static int run_program(struct record *r)
{
    struct launch_signals signals;
    struct destination to = {0};
    bool is_loaded = r->heap || r->events;
    launch_take_signals(&signals); /* before any message: its reader may be gone */
    char *image = image_find(r->words[0], is_loaded);
    struct session s = {.record = r, .image = image, .output = &to, .signals = &signals};
    bool ready = image != NULL;
    if (ready && r->cpu) {
        s.cpu = record_prepare_cpu(r, image);
        s.cpu_err = r->cpu_err;
        ready = s.cpu || is_loaded || (r->cpu_inside && image_can_load(image));
    }
    char *library = ready && (is_loaded || r->cpu_inside) ? record_find_library() : NULL;
    ready = ready && (library || !(is_loaded || r->cpu_inside));
    s.library = library;
    int status = EXIT_FAILED;
    if (ready) {
        status = destination_prepare(&to, r->output);
        if (status == EXIT_DONE)
            status = run(&s);
    }
    launch_give_signals_back(&signals);
    record_free_cpu(s.cpu);
    destination_release(&to);
    free(library);
    free(image);
    return status;
}

/* If our caller closed a standard descriptor, the recording could be opened as that descriptor, and
 * messages would be written into it. So /dev/null takes their place, close-on-exec, and the program
 * still gets them closed. */
static void hold_standard(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int record_run(const struct record *r)
{
    struct record wanted = *r;
    hold_standard();
    return r->pid > 0 ? attached_run(&wanted) : run_program(&wanted);
}
