/* Starts and stops sampling inside the program: first the recording, then the signal, then the
 * threads. Stopping goes in reverse order.
 *
 * Sampling may stop and start again in the same recording, with other options. */
#include "target/cpu/cpu.h"

#include <errno.h>
#include <stdbool.h>

#include "target/cpu/samples.h"
#include "target/cpu/signal.h"
#include "target/record/control.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"
#include "target/record/stats.h"

enum { LOCK_TRIES = 20 }; /* less than a second */

static struct piano__cpu_wish wish; /* current options */
static bool off_stacks;             /* do not use alternate signal stacks */

/* Waits longer for the lock, for callers that can afford it. May time out: the lock holder may be
 * this thread, interrupted by a signal handler. */
static bool lock_long(void)
{
    bool is_locked = false;
    for (int i = 0; i < LOCK_TRIES && !is_locked; i++)
        is_locked = piano__lock_try(&piano__control_changing);
    return is_locked;
}

/* Removes SA_ONSTACK. SIGNAL must be ours. */
static void leave_stacks(int signal)
{
    struct sigaction action;
    piano__sigaction_fn *set = piano__signal_next;
    if (!set || set(signal, NULL, &action) != 0)
        return;
    action.sa_flags &= ~SA_ONSTACK;
    set(signal, &action, NULL);
}

/* Opens the gate before it arms the first thread. Otherwise a new thread that finds it shut would
 * be missed. */
static int arm(int avoid)
{
    int signal = piano__signal_take(&wish, avoid);
    if (signal < 0)
        return signal;
    /* Relaxed: a setting. */
    if (__atomic_load_n(&off_stacks, __ATOMIC_RELAXED))
        leave_stacks(signal);
    if (!piano__cpu_threads_init(&wish, signal)) {
        piano__signal_give();
        return -ENOMEM;
    }
    piano__gate_set(&piano__gate->cpu, 1);
    int err = piano__cpu_threads_arm();
    /* -EBUSY if the program took the signal meanwhile. */
    return err == 0 && !piano__signal_is(signal) ? -EBUSY : err;
}

/* Keeps the handler while a signal may still arrive, unless the program wants the signal
 * (IS_WANTED). */
static void disarm(bool is_wanted)
{
    piano__gate_set(&piano__gate->cpu, 0);
    bool is_quiet = piano__cpu_threads_disarm();
    if (is_quiet || is_wanted)
        piano__signal_give();
}

static int start(const struct piano__cpu_wish *asked)
{
    if (piano__cpu_is_on())
        return -EALREADY;
    if (piano__control_is_sampled())
        return -EBUSY;
    int err = piano__control_open();
    if (err == 0 && !piano__cpu_samples_init())
        err = -ENOMEM;
    if (err == 0) {
        wish = *asked;
        err = arm(0);
        if (err != 0 && piano__cpu_is_on())
            disarm(false);
    }
    /* No sample has used these tables, unless an earlier start succeeded. */
    if (err != 0 &&
        !(piano__recording.view.header && piano__recording.view.header->flags & PIANO_REC_HAS_CPU))
        piano__cpu_samples_forget();
    if (err != 0) {
        piano__control_abandon();
        return err;
    }
    struct piano__trace *t = piano__trace_stats();
    /* Relaxed: settings, which the tool reads at the end. */
    __atomic_store_n(&t->cpu_source, wish.source, __ATOMIC_RELAXED);
    __atomic_store_n(&t->cpu_hz, wish.hz, __ATOMIC_RELAXED);
    piano__control_started(PIANO_REC_HAS_CPU);
    return 0;
}

int piano__cpu_start(const struct piano__cpu_wish *asked)
{
    int saved = errno;
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    int err = start(asked);
    piano__lock_release(&piano__control_changing);
    errno = saved;
    return err;
}

int piano__cpu_stop(void)
{
    int saved = errno;
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    bool was_on = piano__cpu_is_on();
    if (was_on)
        disarm(false);
    piano__lock_release(&piano__control_changing);
    errno = saved;
    return was_on ? 0 : -ENOTCONN;
}

/* If the lock is not available, sampling ends. The program gets its signal in any case. */
void piano__cpu_yield(int signal)
{
    int saved = errno;
    bool is_locked = lock_long();
    disarm(true);
    if (is_locked && arm(signal) != 0 && piano__cpu_is_on())
        disarm(false);
    if (is_locked)
        piano__lock_release(&piano__control_changing);
    errno = saved;
}

void piano__cpu_stay_off_stacks(void)
{
    int saved = errno;
    __atomic_store_n(&off_stacks, true, __ATOMIC_RELAXED);
    if (lock_long()) {
        for (int i = 1; i < SIGRTMAX; i++)
            if (piano__signal_is(i))
                leave_stacks(i);
        piano__lock_release(&piano__control_changing);
    }
    errno = saved;
}

void piano__cpu_pause(void)
{
    if (piano__cpu_is_on())
        piano__cpu_thread_pause(true);
}

void piano__cpu_resume(void)
{
    if (piano__cpu_is_on())
        piano__cpu_thread_pause(false);
}

void piano__cpu_end(void)
{
    int saved = errno;
    if (piano__cpu_is_on())
        piano__cpu_threads_settle();
    errno = saved;
}

void piano__cpu_forget(void)
{
    piano__signal_forget();
    piano__cpu_threads_forget();
    piano__cpu_samples_forget();
}

void piano__cpu_unloaded(void)
{
    int saved = errno;
    if (piano__cpu_is_on())
        piano__cpu_samples_unloaded();
    errno = saved;
}
