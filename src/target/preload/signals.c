/* The functions that set the action of a signal, interposed before the C library's. The program may
 * want the signal that is used for samples. Then it gets the signal in its original state, and
 * sampling continues with another one. Without this, a program that resets all signals to their
 * default would be ended by the next sample. The functions of gprof are included, since the C
 * library sets its handler without going through the hooks.
 *
 * The program's alternate signal stack is sized for its own handlers. If one is too small for ours,
 * no thread's alternate stack is used: the flag belongs to the signal, not to the thread. */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/gmon.h>
#include <sys/profil.h>
#include <unistd.h>

#include "target/cpu/cpu.h"
#include "target/cpu/signal.h"
#include "target/preload/next.h"

#define EXPORT __attribute__((visibility("default")))

/* Not all of these are declared by a header. */
piano__sigaction_fn __sigaction;
__sighandler_t __sysv_signal(int, __sighandler_t);
__sighandler_t bsd_signal(int, __sighandler_t);
__typeof__(monstartup) __monstartup;
void moncontrol(int);

/* Bytes that the handler needs on an alternate stack, in addition to the kernel's frame; and the
 * size of that frame if the kernel does not report it. */
enum { HANDLER_BYTES = 4096, FRAME_BYTES = 2048 };

enum { TRIES = 4 };

static struct {
    __typeof__(signal) *signal;
    __typeof__(signal) *sysv_signal;
    __typeof__(signal) *sigset;
    int (*sigignore)(int);
    int (*siginterrupt)(int, int);
    __typeof__(sigaltstack) *sigaltstack;
    __typeof__(monstartup) *monstartup;
    __typeof__(moncontrol) *moncontrol;
    __typeof__(profil) *profil;
    __typeof__(sprofil) *sprofil;
} next;

/* Before the program starts: a signal handler, which may call these functions, must not look up
 * functions. Calls before that come from a single thread. */
__attribute__((constructor(101))) static void find_all(void)
{
    if (piano__signal_next)
        return;
    piano__next_find(&next.signal, "signal");
    piano__next_find(&next.sysv_signal, "__sysv_signal");
    piano__next_find(&next.sigset, "sigset");
    piano__next_find(&next.sigignore, "sigignore");
    piano__next_find(&next.siginterrupt, "siginterrupt");
    piano__next_find(&next.sigaltstack, "sigaltstack");
    piano__next_find(&next.monstartup, "__monstartup");
    piano__next_find(&next.moncontrol, "moncontrol");
    piano__next_find(&next.profil, "profil");
    piano__next_find(&next.sprofil, "sprofil");
    piano__next_find(&piano__signal_next, "sigaction");
}

static void make_way(int signal)
{
    find_all();
    if (piano__signal_is(signal))
        piano__cpu_yield(signal);
}

/* Another thread may start sampling at the same time. */
static bool is_taken_again(int signal, int *tries)
{
    return piano__signal_is(signal) && --*tries > 0;
}

static __sighandler_t set_by(__typeof__(signal) *set, int signal, __sighandler_t handler)
{
    __sighandler_t before;
    int tries = TRIES;
    do {
        make_way(signal);
        before = set(signal, handler);
    } while (is_taken_again(signal, &tries));
    return before;
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    find_all();
    if (!action && before && piano__signal_is(signal)) {
        *before = *piano__signal_before();
        return 0;
    }
    int result;
    int tries = TRIES;
    do {
        if (action)
            make_way(signal);
        result = piano__signal_next(signal, action, before);
    } while (result == 0 && action && is_taken_again(signal, &tries));
    return result;
}

EXPORT int __sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    return sigaction(signal, action, before);
}

#define SETS(name, of)                                                                             \
    EXPORT __sighandler_t name(int signal, __sighandler_t handler)                                 \
    {                                                                                              \
        find_all();                                                                                \
        return set_by(next.of, signal, handler);                                                   \
    }
SETS(signal, signal)
SETS(bsd_signal, signal)
SETS(ssignal, signal)
SETS(sysv_signal, sysv_signal)
SETS(__sysv_signal, sysv_signal)
SETS(sigset, sigset)

EXPORT int sigignore(int signal)
{
    make_way(signal);
    return next.sigignore(signal);
}

EXPORT int siginterrupt(int signal, int is_interrupting)
{
    make_way(signal);
    return next.siginterrupt(signal, is_interrupting);
}

EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict before)
{
    find_all();
    if (stack && !(stack->ss_flags & SS_DISABLE)) {
        unsigned long frame = getauxval(AT_MINSIGSTKSZ);
        if (stack->ss_size < (frame ? frame : FRAME_BYTES) + HANDLER_BYTES)
            piano__cpu_stay_off_stacks();
    }
    return next.sigaltstack(stack, before);
}

/* ---- gprof ---- */

EXPORT void __monstartup(unsigned long low, unsigned long high)
{
    make_way(SIGPROF);
    next.monstartup(low, high);
}

EXPORT void monstartup(unsigned long low, unsigned long high)
{
    __monstartup(low, high);
}

EXPORT void moncontrol(int mode)
{
    make_way(SIGPROF);
    next.moncontrol(mode);
}

EXPORT int profil(unsigned short *counts, size_t bytes, size_t offset, unsigned scale)
{
    make_way(SIGPROF);
    return next.profil(counts, bytes, offset, scale);
}

EXPORT int sprofil(struct prof *all, int count, struct timeval *period, unsigned flags)
{
    make_way(SIGPROF);
    return next.sprofil(all, count, period, flags);
}
