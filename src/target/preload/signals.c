/* The calls that say what a signal does, in front of the C library's: a program may want for itself the one that samples come by.
 * Then it has it, as if nobody had been there, and samples go on by another. Without this, a program that sets all signals to
 * their default would be ended by the next sample. */
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "target/cpu/cpu.h"
#include "target/cpu/signal.h"

#define EXPORT __attribute__((visibility("default")))

/* No header declares all of these. */
piano__sigaction_fn __sigaction;
__sighandler_t __sysv_signal(int, __sighandler_t);
__sighandler_t bsd_signal(int, __sighandler_t);

static struct {
    __typeof__(signal) *signal;
    __typeof__(signal) *sysv_signal;
    __typeof__(signal) *sigset;
    int (*sigignore)(int);
} next;

static void find(void *where, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

/* Before the program begins: a handler, where these may be called, is no place to look for functions. Whoever calls them before that
 * is alone. */
__attribute__((constructor(101))) static void find_all(void)
{
    if (piano__signal_next)
        return;
    find(&next.signal, "signal");
    find(&next.sysv_signal, "__sysv_signal");
    find(&next.sigset, "sigset");
    find(&next.sigignore, "sigignore");
    find(&piano__signal_next, "sigaction");
}

static void make_way(int signal)
{
    find_all();
    if (piano__signal_is(signal))
        piano__cpu_yield(signal);
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    find_all();
    if (!action && before && piano__signal_is(signal)) {
        *before = *piano__signal_before();
        return 0;
    }
    if (action)
        make_way(signal);
    return piano__signal_next(signal, action, before);
}

EXPORT int __sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    return sigaction(signal, action, before);
}

EXPORT __sighandler_t signal(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.signal(signal, handler);
}

EXPORT __sighandler_t bsd_signal(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.signal(signal, handler);
}

EXPORT __sighandler_t ssignal(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.signal(signal, handler);
}

EXPORT __sighandler_t sysv_signal(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.sysv_signal(signal, handler);
}

EXPORT __sighandler_t __sysv_signal(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.sysv_signal(signal, handler);
}

EXPORT __sighandler_t sigset(int signal, __sighandler_t handler)
{
    make_way(signal);
    return next.sigset(signal, handler);
}

EXPORT int sigignore(int signal)
{
    make_way(signal);
    return next.sigignore(signal);
}
