/* Starts the program to record.
 *
 * It inherits our terminal, process group, descriptors and environment, plus the few variables
 * listed in docs/record.md, which tell libpiano.so to record. One of them is the process id: the
 * library is loaded into every process that the program starts, but only the program itself is
 * recorded unless the user asked for more. The id is known only between fork and exec, so this uses
 * fork and not posix_spawn.
 *
 * The process waits for a byte in a pipe before its exec, so that the caller can prepare for it. A
 * failed exec is reported through another pipe, which a successful exec closes. */
#include "tool/record/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/util/child.h"

static const int awaited[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2};

void launch_take_signals(struct launch_signals *s)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&s->awaited);
    /* The parent may have left SIGCHLD ignored; then waiting would not work. */
    sigaction(SIGCHLD, &usual, &s->old_child);
    /* For a file size limit and a closed pipe, the error codes are sufficient. */
    sigaction(SIGXFSZ, &ignore, &s->old_size);
    sigaction(SIGPIPE, &ignore, &s->old_pipe);
    for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++) {
        struct sigaction now;
        /* Signals that our parent ignores (nohup, a shell's background job) stay ignored. */
        if (sigaction(awaited[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&s->awaited, awaited[i]);
    }
    /* A shell script starts its background jobs with SIGINT ignored, so that Ctrl-C does not end
     * them. A SIGINT that is sent to us alone is still meant for us. Blocking queues it although it
     * is ignored, and watch.c distinguishes the two. */
    s->ignores_int = !sigismember(&s->awaited, SIGINT);
    sigaddset(&s->awaited, SIGINT);
    sigaddset(&s->awaited, SIGUSR2);
    sigprocmask(SIG_BLOCK, &s->awaited, &s->old_mask);
}

void launch_give_signals_back(const struct launch_signals *s)
{
    sigaction(SIGCHLD, &s->old_child, NULL);
    sigaction(SIGXFSZ, &s->old_size, NULL);
    sigaction(SIGPIPE, &s->old_pipe, NULL);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

/* The environment for the program; NULL when out of memory. Runs in the child, so it frees
 * nothing. */
static char **make_environment(const struct record *r, const char *library,
                               const struct destination *o)
{
    const char *preload = getenv("LD_PRELOAD");
    char *path = destination_path(o, getpid());
    char *set[13] = {NULL};
    int bad = path ? 0 : -1;
    bad |= asprintf(&set[0], "LD_PRELOAD=%s%s%s", library, preload && *preload ? ":" : "",
                    preload ? preload : "");
    bad |= asprintf(&set[1], "PIANO_RECORD=%s", path ? path : "");
    bad |= asprintf(&set[2], "PIANO_RECORD_PID=%d", (int)getpid());
    /* A name without a value removes the variable, in case another piano set it. */
    bad |= r->heap ? asprintf(&set[3], "PIANO_HEAP=%" PRIu64, r->heap_rate)
                   : asprintf(&set[3], "PIANO_HEAP");
    bad |= asprintf(&set[4], "PIANO_MAPS%s", r->maps ? "=1" : "");
    bad |= asprintf(&set[5], "PIANO_CHILDREN%s", r->children ? "=1" : "");
    bad |= asprintf(&set[6], "PIANO_EVENTS%s", r->events ? "=1" : "");
    bad |= r->cpu_inside ? asprintf(&set[7], "PIANO_CPU=%u", r->cpu_hz)
                         : asprintf(&set[7], "PIANO_CPU%s", r->cpu ? "=outside" : "");
    bad |= r->children ? asprintf(&set[8], "PIANO_FAMILY_MOST=%zu", r->most_processes)
                       : asprintf(&set[8], "PIANO_FAMILY_MOST");
    bad |= r->children ? asprintf(&set[9], "PIANO_FAMILY_SIZE=%" PRIu64, r->family_bytes)
                       : asprintf(&set[9], "PIANO_FAMILY_SIZE");
    if (r->max_bytes > 0) {
        bool alone = !r->heap && !r->cpu;
        bad |= asprintf(&set[10], "PIANO_MAX_SIZE=%" PRIu64, r->max_bytes);
        bad |= asprintf(&set[11], "PIANO_EVENTS_MAX=%" PRIu64,
                        alone ? r->max_bytes / 8 * 5 : r->max_bytes / 2);
    }
    free(path);
    return bad < 0 ? NULL : child_env(set);
}

/* Waits until the tool has prepared everything; false when the tool is gone. */
static bool wait_for_word(int from)
{
    char word;
    ssize_t got;
    do {
        got = read(from, &word, 1);
    } while (got < 0 && errno == EINTR);
    return got == 1;
}

static void __attribute__((noreturn)) become(const struct launch_plan *plan, int go, int tell)
{
    const struct record *r = plan->record;
    char **env = plan->library ? make_environment(r, plan->library, plan->output) : environ;
    int err = ENOMEM;
    if (!wait_for_word(go))
        _exit(127);
    if (env) {
        launch_give_signals_back(plan->signals);
        execvpe(plan->image, r->words, env); /* a path, so PATH is not searched */
        err = errno;
    }
    while (write(tell, &err, sizeof err) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* The process exists: prepares for it, releases it, and waits for its exec. Returns 0 or the errno
 * of the exec. */
static int see_off(const struct launch_plan *plan, pid_t pid, int go, int told)
{
    int err = 0;
    if (plan->before_exec)
        plan->before_exec(plan->ctx, pid);
    while (write(go, "", 1) < 0 && errno == EINTR)
        ;
    if (read(told, &err, sizeof err) == (ssize_t)sizeof err)
        waitpid(pid, NULL, 0);
    else
        err = 0;
    return err;
}

int launch(const struct launch_plan *plan, pid_t *pid)
{
    int go[2];
    int tell[2];
    if (pipe2(go, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(tell, O_CLOEXEC) != 0) {
        int err = errno;
        close(go[0]);
        close(go[1]);
        return -err;
    }
    *pid = fork();
    int err = *pid < 0 ? errno : 0;
    if (*pid == 0) {
        close(go[1]);
        become(plan, go[0], tell[1]);
    }
    close(go[0]);
    close(tell[1]);
    if (*pid > 0)
        err = see_off(plan, *pid, go[1], tell[0]);
    close(go[1]);
    close(tell[0]);
    return -err;
}
