/* The kernel checks such a timer only at its tick, usually 250 times a second. All expirations since
 * the last tick come as one signal with a count.
 *
 * What a thread does after its last tick is never sampled, and a thread that is shorter than a tick
 * often sees none. So that sums are right whatever the life of the threads, the time before the
 * first tick counts as a whole tick: on average it is too much by what is missing at the end. A
 * sample is due at a random point of the first period, then once a period. The first timer is set
 * to the beginning of the tick with that point, so it expires at the end of that tick, wherever the
 * ticks lie in the thread's life. The handler then sets the timer to the next point. */
#include "target/cpu/timer.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sys/clock.h"

enum { SECOND = 1000000000 };

/* Returns the kernel's clock id for a thread's CPU time. */
static clockid_t clock_of(uint32_t tid)
{
    enum { PER_THREAD = 4, OF_SCHEDULER = 2 };
    return (clockid_t)(~tid << 3 | PER_THREAD | OF_SCHEDULER);
}

uint64_t piano__cpu_time_of(uint32_t tid)
{
    struct timespec ts;
    if (syscall(SYS_clock_gettime, clock_of(tid), &ts) != 0)
        return 0;
    return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* Returns the length of the kernel's tick: the coarse clock advances with it. */
static uint64_t tick_ns(void)
{
    struct timespec ts = {0, 0};
    if (syscall(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, &ts) != 0 || ts.tv_nsec == 0)
        return SECOND / 100; /* the slowest tick that exists */
    return (uint64_t)ts.tv_nsec;
}

static int set(const struct piano__cpu_thread *t, uint64_t first_ns, uint64_t period_ns)
{
    const struct itimerspec when = {
        .it_interval = {(time_t)(period_ns / SECOND), (long)(period_ns % SECOND)},
        .it_value = {(time_t)(first_ns / SECOND), (long)(first_ns % SECOND)}};
    return syscall(SYS_timer_settime, t->timer, 0, &when, NULL) == 0 ? 0 : -errno;
}

int piano__cpu_timer_start(struct piano__cpu_thread *t, uint64_t period_ns, int signal)
{
    struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal};
    how.sigev_value.sival_ptr = t;
    how._sigev_un._tid = (pid_t)t->tid;
    if (syscall(SYS_timer_create, clock_of(t->tid), &how, &t->timer) != 0)
        return -errno;
    uint64_t random = ((uint64_t)piano__ticks() ^ t->tid) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t due = (random >> 32) % period_ns;
    uint64_t tick_begin = due - due % tick_ns();
    t->first_due = 1 + due;
    int err = set(t, tick_begin > 0 ? tick_begin : 1, period_ns);
    if (err != 0)
        syscall(SYS_timer_delete, t->timer);
    return err;
}

void piano__cpu_timer_stop(const struct piano__cpu_thread *t)
{
    syscall(SYS_timer_delete, t->timer);
}

uint64_t piano__cpu_timer_take(struct piano__cpu_thread *t, uint64_t period_ns, int overrun)
{
    if (t->first_due == 0)
        return (1 + (overrun > 0 ? (uint64_t)overrun : 0)) * period_ns;
    uint64_t due = t->first_due - 1;
    uint64_t tick = tick_ns();
    uint64_t age = piano__cpu_time_of(t->tid) - t->begun_ns;
    uint64_t tick_end = due - due % tick + tick;
    /* The thread may have blocked the signal for some ticks. */
    uint64_t now = age > tick_end ? age : tick_end;
    uint64_t count = 1 + (now - due) / period_ns;
    t->first_due = 0;
    (void)set(t, due + count * period_ns - now, period_ns);
    return count * period_ns;
}
