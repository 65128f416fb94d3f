/* WHICH SIGNAL. SIGPROF if the program does not use it, since debuggers let it pass. Else a
 * real-time signal from the middle of the range, which programs use least. A signal that the
 * program ignores is not taken: it may ignore it on purpose.
 *
 * THE HANDLER runs with all signals blocked, on the alternate stack if the thread has one. It walks
 * the stack of the interrupted code, writes the sample, and changes nothing that the program can
 * see, including errno. It uses nothing that the interrupted thread may be in the middle of: the
 * walker is signal-safe, and samples.c never waits.
 *
 * A signal of the same number from elsewhere (kill, setitimer) would have ended the program, since
 * it had no handler. So it still does.
 *
 * GIVING BACK. Ignoring a signal for a moment drops it where it is pending, in every thread.
 * Otherwise a pending signal would arrive after the default action is restored, and end the
 * program. */
#include "target/cpu/signal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/cpu/perf.h"
#include "target/cpu/samples.h"
#include "target/cpu/timer.h"
#include "target/sys/recording.h"

enum { SECOND = 1000000000 };

piano__sigaction_fn *piano__signal_next;

static struct {
    int number; /* 0: none */
    pid_t pid;
    struct piano__cpu_wish wish;
    struct sigaction before;
} taken;

static int set_action(int signal, const struct sigaction *action, struct sigaction *before)
{
    return piano__signal_next ? piano__signal_next(signal, action, before)
                              : sigaction(signal, action, before);
}

/* The handler ---------------------------------------------------------------------------------- */

static void put_kernel(struct piano__walk *walk, const struct piano__cpu_chain *chain)
{
    uint32_t kept = walk->depth < PIANO_MAX_FRAMES - chain->depth ? walk->depth
                                                                  : PIANO_MAX_FRAMES - chain->depth;
    if (kept < walk->depth)
        walk->flags |= PIANO_STACK_FULL;
    memmove(walk->pcs + chain->depth, walk->pcs, kept * sizeof walk->pcs[0]);
    memmove(walk->sps + chain->depth, walk->sps, (kept + 1) * sizeof walk->sps[0]);
    /* Kernel frames are not on a stack of the program. */
    for (uint32_t i = 0; i < chain->depth; i++)
        walk->sps[i] = walk->sps[chain->depth];
    memcpy(walk->pcs, chain->pcs, chain->depth * sizeof walk->pcs[0]);
    walk->depth = chain->depth + kept;
}

static void sample(struct piano__cpu_thread *t, const siginfo_t *info, const void *context)
{
    uint64_t ns;
    t->chain.depth = 0;
    if (taken.wish.source == PIANO_CPU_TIMERS) {
        ns = piano__cpu_timer_take(t, SECOND / taken.wish.hz, info->si_overrun);
    } else {
        ns = piano__cpu_perf_take(t, &taken.wish);
    }
    if (ns == 0)
        return;
    piano__regs_of_signal(&t->regs, context);
    piano__walk_from(&t->walker, &t->regs, &t->walk);
    if (t->chain.depth > 0)
        put_kernel(&t->walk, &t->chain);
    /* Relaxed: only this thread writes `sampled_ns`. */
    uint64_t before = __atomic_load_n(&t->sampled_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&t->sampled_ns, before + ns, __ATOMIC_RELAXED);
    piano__cpu_samples_put(t, ns);
}

/* Restores the default action and sends the signal again. It arrives when the handler returns. */
static void pass_on(int signal)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    set_action(signal, &usual, NULL);
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    if (!piano__cpu_may_be_ours(info)) {
        pass_on(signal);
    } else if (piano__cpu_is_on()) {
        struct piano__cpu_thread *t = piano__cpu_thread_of(info);
        if (t)
            sample(t, info, context);
    }
    errno = saved;
}

/* Taking and giving back ----------------------------------------------------------------------- */

static bool try_to_take(int signal)
{
    struct sigaction now;
    if (set_action(signal, NULL, &now) != 0 || now.sa_handler != SIG_DFL)
        return false;
    struct sigaction ours = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    if (set_action(signal, &ours, &now) != 0)
        return false;
    /* If another thread has set a handler in between, restores it. */
    if (now.sa_handler != SIG_DFL) {
        set_action(signal, &now, NULL);
        return false;
    }
    taken.before = now;
    taken.pid = (pid_t)syscall(SYS_getpid);
    /* Pairs with the acquire in piano__signal_is(): `before` and `pid` are set. */
    __atomic_store_n(&taken.number, signal, __ATOMIC_RELEASE);
    return true;
}

int piano__signal_take(const struct piano__cpu_wish *wish, int avoid)
{
    taken.wish = *wish;
    if (avoid != SIGPROF && try_to_take(SIGPROF))
        return SIGPROF;
    int middle = (SIGRTMIN + SIGRTMAX) / 2;
    for (int i = middle; i < SIGRTMAX && wish->source == PIANO_CPU_TIMERS; i++) {
        if (i != avoid && try_to_take(i))
            return i;
    }
    return -ENOTSUP;
}

void piano__signal_give(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int signal = taken.number;
    if (signal == 0)
        return;
    /* Pairs with the acquire in piano__signal_is(). */
    __atomic_store_n(&taken.number, 0, __ATOMIC_RELEASE);
    set_action(signal, &ignore, NULL);
    set_action(signal, &taken.before, NULL);
}

void piano__signal_forget(void)
{
    piano__signal_give();
}

bool piano__signal_is(int signal)
{
    /* Pairs with the release in try_to_take(). */
    return signal != 0 && signal == __atomic_load_n(&taken.number, __ATOMIC_ACQUIRE) &&
           taken.pid == (pid_t)syscall(SYS_getpid);
}

const struct sigaction *piano__signal_before(void)
{
    return &taken.before;
}
