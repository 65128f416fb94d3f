/* Writes the names of functions into all recordings of one `piano record`, with one symbolizer,
 * because processes of one program use the same files.
 *
 * This happens in a process of its own: libdw may need more memory or stack than the limits of the
 * user allow (ulimit -v, -s), and may crash on a damaged file. The exit status of the program must
 * not depend on that. A thread with a large stack does the work.
 *
 * Reading debug information can take a while. So far the signals that would end us were blocked and
 * passed to the program. The program has ended, so now they are meant for us. The first signal
 * stops only this step. The second ends the process that does it, because code that blocks while
 * reading a file cannot check for the first. The recordings are complete at any time. */
#include "tool/record/keeping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/record/keep.h"
#include "tool/symbol/symbol.h"
#include "tool/util/say.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDINGS = sizeof ending / sizeof ending[0] };

static volatile sig_atomic_t is_asked;

/* Called once: the next signal has its default action. */
static void on_signal(int number)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)number;
    is_asked = 1;
    for (size_t i = 0; i < ENDINGS; i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler == on_signal)
            sigaction(ending[i], &plain, NULL);
    }
}

static bool is_asked_to_end(void)
{
    return is_asked != 0;
}

/* Blocks all of them, in SET, and drops those that were meant for the program. */
static void hold_signals(sigset_t *set)
{
    const struct timespec at_once = {0};
    sigemptyset(set);
    for (size_t i = 0; i < ENDINGS; i++)
        sigaddset(set, ending[i]);
    sigprocmask(SIG_BLOCK, set, NULL);
    while (sigtimedwait(set, NULL, &at_once) > 0)
        continue;
}

/* Signals that our parent ignores stay ignored. Only the thread that does the work receives the
 * others, because they have to interrupt it. */
static void hear_signals(const sigset_t *set)
{
    const struct sigaction once = {.sa_handler = on_signal};
    is_asked = 0;
    for (size_t i = 0; i < ENDINGS; i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(ending[i], &once, NULL);
    }
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

static void show_progress(void *ctx, const char *what)
{
    (void)ctx;
    say_progress("%s", what);
}

/* A process that still runs may still write to its recording: skip it. */
static bool is_over(const struct recording *r)
{
    return r->over || (kill(r->pid, 0) != 0 && errno == ESRCH);
}

static void say_without(int err, bool is_one, size_t without)
{
    if (err == -EINTR)
        say("interrupted: function names are not stored in the recording%s; they are lost if the "
            "program is rebuilt",
            is_one ? "" : "s");
    else if (err == -ENOSPC)
        say("no room for all function names in %s: they are lost if the program is rebuilt",
            is_one ? "the recording" : "some of the recordings");
    else if (err != 0)
        say("function names are not stored in %s: %s; they are lost if the program is rebuilt",
            is_one         ? "the recording"
            : without == 1 ? "a recording"
                           : "some of the recordings",
            strerror(-err));
}

struct job {
    const struct recording *list;
    size_t count;
    sigset_t set;
};

static void *name_all(void *arg)
{
    const struct job *job = arg;
    struct symbols *symbols = symbols_new();
    int err = 0, first = 0;
    size_t without = 0;
    if (!symbols)
        return NULL;
    hear_signals(&job->set);
    symbols_offline(symbols); /* do not wait for a server here */
    symbols_progress(symbols, show_progress, NULL);
    for (size_t i = 0; i < job->count && err != -ENOMEM && err != -EINTR; i++) {
        const struct recording *one = &job->list[i];
        err = is_over(one) ? keep_names(one->path, symbols, is_asked_to_end) : 0;
        without += err != 0;
        first = first && err != -EINTR ? first : err;
    }
    symbols_free(symbols);
    say_without(first, job->count == 1, without);
    return NULL;
}

static void __attribute__((noreturn)) work(struct job *job)
{
    enum { STACK = 16 << 20 };
    pthread_attr_t attr;
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    if (pthread_create(&thread, &attr, name_all, job) == 0)
        pthread_join(thread, NULL);
    else
        name_all(job);
    fflush(NULL);
    _exit(0);
}

/* Waits for the process that does the work, and passes on signals that are for it. The terminal
 * sends Ctrl-C to both of us. */
static int wait_for(pid_t pid, sigset_t *set)
{
    const struct timespec at_once = {0};
    int status = 0;
    siginfo_t info;
    sigaddset(set, SIGCHLD);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (sigwaitinfo(set, &info) > 0 && info.si_signo != SIGCHLD && info.si_code != SI_KERNEL)
            kill(pid, info.si_signo);
    }
    sigdelset(set, SIGCHLD);
    while (sigtimedwait(set, NULL, &at_once) > 0)
        continue;
    return status;
}

static bool is_ending(int number)
{
    for (size_t i = 0; i < ENDINGS; i++) {
        if (number == ending[i])
            return true;
    }
    return false;
}

void keeping_names(const struct recording *list, size_t count)
{
    struct job job = {.list = list, .count = count};
    if (count == 0)
        return;
    hold_signals(&job.set);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        work(&job);
    if (pid < 0) {
        say_without(-errno, count == 1, count);
        return;
    }
    int status = wait_for(pid, &job.set);
    if (WIFSIGNALED(status) && is_ending(WTERMSIG(status)))
        say_without(-EINTR, count == 1, count);
    else if (WIFSIGNALED(status))
        say("function names are not stored in the recording%s: looking them up crashed (%s); they "
            "are lost if the program is rebuilt",
            count == 1 ? "" : "s", strsignal(WTERMSIG(status)));
}
