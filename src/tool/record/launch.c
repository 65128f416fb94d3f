/* Starting the program that is recorded.
 *
 * It gets our terminal, our process group, our descriptors and our environment, and besides the few variables
 * listed in docs/record.md, by which libpiano.so knows that it is meant. One of them is the process id: the library is
 * loaded into everything the program starts, and only the program itself is recorded unless the user asked for more. The
 * id is known between fork and exec only, so this is a fork and not a posix_spawn.
 *
 * A failed exec comes back through a pipe that a successful one closes. */
#include "tool/record/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/build/child.h"

static const int awaited[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2};

void launch_take_signals(struct launch_signals *s)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&s->awaited);
    /* Who started us may ignore SIGCHLD, and then nothing can be waited for. */
    sigaction(SIGCHLD, &usual, &s->old_child);
    /* A limit on file sizes, and a reader that went away: errors are enough. */
    sigaction(SIGXFSZ, &ignore, &s->old_size);
    sigaction(SIGPIPE, &ignore, &s->old_pipe);
    for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++) {
        struct sigaction now;
        /* What we were told to ignore (nohup, a shell's background) stays ignored. */
        if (sigaction(awaited[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&s->awaited, awaited[i]);
    }
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

/* What the program finds in its environment; NULL when out of memory. In the child: nothing is freed. */
static char **make_environment(const struct record *r, const char *library, const struct output *o)
{
    const char *preload = getenv("LD_PRELOAD");
    char *path = output_path(o, getpid());
    char *set[] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    int bad = path ? 0 : -1;
    bad |= asprintf(&set[0], "LD_PRELOAD=%s%s%s", library, preload && *preload ? ":" : "",
                    preload ? preload : "");
    bad |= asprintf(&set[1], "PIANO_RECORD=%s", path ? path : "");
    bad |= asprintf(&set[2], "PIANO_RECORD_PID=%d", (int)getpid());
    bad |= asprintf(&set[3], "PIANO_HEAP=%" PRIu64, r->heap_rate);
    /* Without a value: taken away, should another piano have put it there. */
    bad |= asprintf(&set[4], "PIANO_MAPS%s", r->maps ? "=1" : "");
    bad |= asprintf(&set[5], "PIANO_CHILDREN%s", r->children ? "=1" : "");
    free(path);
    return bad < 0 ? NULL : child_env(set);
}

static void __attribute__((noreturn))
become(const struct record *r, const char *image, const char *library, const struct output *o,
       const struct launch_signals *s, int tell)
{
    char **env = make_environment(r, library, o);
    int err = ENOMEM;
    if (env) {
        launch_give_signals_back(s);
        execvpe(image, r->words, env); /* a path, so nothing is searched */
        err = errno;
    }
    while (write(tell, &err, sizeof err) < 0 && errno == EINTR)
        ;
    _exit(127);
}

int launch(const struct record *r, const char *image, const char *library, const struct output *o,
           const struct launch_signals *s, pid_t *pid)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    *pid = fork();
    int err = *pid < 0 ? errno : 0;
    if (*pid == 0)
        become(r, image, library, o, s, fds[1]);
    close(fds[1]);
    if (*pid > 0 && read(fds[0], &err, sizeof err) == (ssize_t)sizeof err)
        waitpid(*pid, NULL, 0);
    close(fds[0]);
    return -err;
}
