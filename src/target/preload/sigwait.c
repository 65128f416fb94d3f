/* The functions that accept signals without a handler, interposed before the C library's. A program
 * that blocks all signals and waits for any of them does not want the signals of samples. Such a
 * signal is dropped, and the wait continues. The sample counts as lost, like all samples while the
 * program blocks the signal.
 *
 * A program that waits for the signal used for samples, and not for all others, wants it for itself
 * (preload/signals.c). */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/cpu/cpu.h"
#include "target/cpu/signal.h"
#include "target/preload/next.h"

#define EXPORT __attribute__((visibility("default")))

enum { SECOND = 1000000000 };

static struct {
    __typeof__(sigwait) *sigwait;
    __typeof__(sigtimedwait) *sigtimedwait;
    __typeof__(sigwaitinfo) *sigwaitinfo;
    __typeof__(signalfd) *signalfd;
} next;

__attribute__((constructor(101))) static void find_all(void)
{
    if (next.sigtimedwait)
        return;
    piano__next_find(&next.sigwait, "sigwait");
    piano__next_find(&next.sigwaitinfo, "sigwaitinfo");
    piano__next_find(&next.signalfd, "signalfd");
    piano__next_find(&next.sigtimedwait, "sigtimedwait");
}

/* Called before a wait for SET: returns whether signals of samples may arrive meanwhile. */
static bool is_disturbed(const sigset_t *set)
{
    find_all();
    /* Not piano__cpu_is_on(): a signal may still be pending after sampling has stopped. */
    if (piano__cpu_threads_count() == 0 || !set)
        return false;
    bool is_any = sigismember(set, (SIGRTMIN + SIGRTMAX) / 2) == 1;
    if (!is_any && sigismember(set, SIGPROF) == 1 && piano__signal_is(SIGPROF))
        piano__cpu_yield(SIGPROF);
    return true;
}

/* A signal of piano's timers or events is recognised by its details, even if sampling has switched
 * to another signal. */
static bool is_sample(int signal, const siginfo_t *info)
{
    if (signal <= 0 || !piano__cpu_may_be_ours(info))
        return false;
    return info->si_code == SI_TIMER || (signal == SIGPROF && info->si_code > 0) ||
           piano__signal_is(signal);
}

static int64_t now_ns(void)
{
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

/* Waits with an INFO of its own, and again for the rest of the timeout after each sample. */
static int wait_for(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    struct timespec left = timeout ? *timeout : (struct timespec){0, 0};
    int64_t began = now_ns();
    siginfo_t got;
    int signal;
    for (;;) {
        signal = next.sigtimedwait(set, &got, timeout ? &left : NULL);
        if (!is_sample(signal, &got))
            break;
        if (!timeout)
            continue;
        int64_t gone = now_ns() - began;
        left.tv_sec = timeout->tv_sec - (time_t)(gone / SECOND);
        left.tv_nsec = timeout->tv_nsec - (long)(gone % SECOND);
        if (left.tv_nsec < 0) {
            left.tv_nsec += SECOND;
            left.tv_sec--;
        }
        if (left.tv_sec < 0)
            left = (struct timespec){0, 0};
    }
    if (signal > 0 && info)
        *info = got;
    return signal;
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
                        const struct timespec *restrict timeout)
{
    if (!is_disturbed(set))
        return next.sigtimedwait(set, info, timeout);
    return wait_for(set, info, timeout);
}

EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
    if (!is_disturbed(set))
        return next.sigwaitinfo(set, info);
    return wait_for(set, info, NULL);
}

/* sigwait is never interrupted, and does not change errno. */
EXPORT int sigwait(const sigset_t *restrict set, int *restrict signal)
{
    if (!is_disturbed(set))
        return next.sigwait(set, signal);
    int saved = errno;
    int got, err;
    do {
        got = wait_for(set, NULL, NULL);
        err = got < 0 ? errno : 0;
    } while (err == EINTR);
    errno = saved;
    if (err == 0)
        *signal = got;
    return err;
}

/* Reads from the descriptor do not pass through a hook, so it must not contain the signal. */
EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
    if (!is_disturbed(set))
        return next.signalfd(fd, set, flags);
    sigset_t others = *set;
    for (int i = 1; i < SIGRTMAX; i++)
        if (piano__signal_is(i))
            sigdelset(&others, i);
    return next.signalfd(fd, &others, flags);
}
