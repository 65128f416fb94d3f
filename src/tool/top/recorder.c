/* Runs `piano record` in a separate process, so that it and the view do not wait for each other.
 * It tells the recording's path through a pipe once the program runs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/load/prune.h"
#include "tool/record/process.h"
#include "tool/top/top.h"
#include "tool/util/say.h"

enum { KILL_S = 10 };

/* Of the child. The keys are ours, so the program reads nothing from a terminal; and stdout is for
 * the figures. */
static void redirect(const int output[2], bool is_screen)
{
    int null = isatty(STDIN_FILENO) == 1 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (is_screen && isatty(STDERR_FILENO) == 1)
        dup2(output[1], STDERR_FILENO);
    dup2(is_screen ? output[1] : STDERR_FILENO, STDOUT_FILENO);
}

static void __attribute__((noreturn)) record(const struct top *t, int tell)
{
    struct record r = t->record;
    r.tell = tell;
    int status = record_run(&r);
    if (!r.output)
        prune_runs();
    fflush(stderr);
    _exit(status);
}

/* Reads "PID PATH\n". False: the recording did not start. */
static bool hear(struct recorder *r, int from)
{
    char text[PATH_MAX + 32] = "";
    size_t len = 0;
    ssize_t got;
    int at = 0;
    while (len < sizeof(text) - 1 && !strchr(text, '\n') &&
           ((got = read(from, text + len, sizeof(text) - 1 - len)) > 0 ||
            (got < 0 && errno == EINTR))) {
        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
    }
    char *end = strchr(text, '\n');
    if (!end || sscanf(text, "%d %n", &r->program, &at) != 1 || at == 0)
        return false;
    *end = '\0';
    r->path = strdup(text + at);
    return r->path != NULL;
}

int recorder_start(struct recorder *r, const struct top *t, bool is_screen)
{
    int tell[2], output[2];
    *r = (struct recorder){.output = -1};
    if (pipe2(tell, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
        return say_error(NULL, "cannot start the recording: %s", strerror(errno));
    fflush(stdout);
    r->pid = fork();
    if (r->pid == 0) {
        redirect(output, is_screen);
        record(t, tell[1]);
    }
    close(tell[1]);
    close(output[1]);
    r->output = output[0];
    fcntl(r->output, F_SETFL, O_NONBLOCK);
    bool has_begun = r->pid > 0 && hear(r, tell[0]);
    close(tell[0]);
    if (r->pid < 0)
        return say_error(NULL, "cannot start the recording: %s", strerror(errno));
    if (!has_begun)
        recorder_wait(r);
    return has_begun ? EXIT_DONE : r->status;
}

static void take_status(struct recorder *r, int status)
{
    r->is_over = true;
    r->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void recorder_look(struct recorder *r)
{
    int status;
    if (r->pid > 0 && !r->is_over && waitpid(r->pid, &status, WNOHANG) == r->pid)
        take_status(r, status);
}

bool recorder_end(struct recorder *r)
{
    recorder_look(r);
    if (r->pid <= 0 || r->is_over || process_is_zombie(r->program) || kill(r->program, 0) != 0)
        return false; /* the recorder is finishing, which SIGTERM would cut short */
    kill(r->pid, SIGTERM);
    return true;
}

static bool copy_output(int from)
{
    char text[4096];
    ssize_t got = read(from, text, sizeof(text));
    if (got > 0)
        fwrite(text, 1, (size_t)got, stderr);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* A program that ignores SIGTERM is killed, as after `piano record --duration`. A process that was
 * running before is not ours. */
void recorder_wait(struct recorder *r)
{
    enum { STEP_MS = 50 };
    struct pollfd p = {.fd = r->output, .events = POLLIN};
    for (int waited = 0; r->pid > 0 && !r->is_over; recorder_look(r)) {
        if (poll(&p, 1, STEP_MS) > 0 && !copy_output(p.fd))
            p.fd = -1;
        waited += p.revents ? 0 : STEP_MS;
        if (waited == KILL_S * 1000 && r->program > 0 && r->path)
            kill(r->program, SIGKILL);
    }
    while (p.fd >= 0 && poll(&p, 1, 0) > 0 && copy_output(p.fd))
        ;
    if (r->output >= 0)
        close(r->output);
    r->output = -1;
    fflush(stderr);
}
