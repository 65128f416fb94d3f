/* Looking at threads from outside.
 *
 * A counted call leaves no time stamp. When one call of a million takes 20 ms, the samples miss it, and the time
 * would stay with its caller. But the function that runs is known at any moment: the inline probe sets `owner`. So
 * a thread looks at the owner of each thread in turn and gives the function the time since its last look. Sums of
 * these times are right on average whatever the program does; a call that is longer than two looks is always seen.
 * The reader compares them with the estimates, frame by frame (tool/load/looks.c).
 *
 * The watcher is not a thread of the C library: `pthread_create` would allocate. It is a bare clone on a stack of
 * its own that shares the thread-local memory of the thread that started it. So it calls nothing of the C library, which
 * might set errno, and makes its system calls itself. All signals are blocked in it. It starts when the first
 * function is sampled: a program with few calls never has one. PIANO_WATCH=0 in the environment leaves it out. */
#include "target/span/watch.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/span/blocks.h"
#include "target/span/run.h"
#include "target/span/thread.h"
#include "target/sys/clock.h"

enum { PERIOD_NS = 1000000, STACK_BYTES = 16384, SIGNAL_SET_BYTES = 8 };

#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

static struct {
    _Atomic bool started;
    _Atomic int stop; /* the watcher waits on it */
} watch;

static __attribute__((aligned(64))) char stack[STACK_BYTES];

/* A system call that leaves errno alone. */
NOT_SANITIZED static long call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                         : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ __volatile__("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#else
    return -38; /* ENOSYS: no watcher */
#endif
}

int64_t piano__watch_ticks;

void piano__watch_prepare(uint64_t ns_per_tick_32)
{
    piano__watch_ticks = (int64_t)(((unsigned __int128)PERIOD_NS << 32) / ns_per_tick_32);
}

/* Gives TICKS, which have gone by NOW, to the function that T is in. This thread alone writes what it changes. */
NOT_SANITIZED static void look_at(struct piano__thread *t, int64_t ticks, int64_t now)
{
    if (__atomic_load_n(&t->state, __ATOMIC_RELAXED) != PIANO_THREAD_RUNNING)
        return;
    uint64_t offset = __atomic_load_n(&t->owner, __ATOMIC_RELAXED) - (uintptr_t)(t + 1);
    uint64_t id = offset / sizeof(struct piano__head);
    if (id >= piano__capacity)
        return;
    struct piano__slot *slots =
        (struct piano__slot *)((struct piano__head *)(t + 1) + piano__capacity);
    __atomic_store_n(&slots[id].looked, slots[id].looked + ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&t->look_slot, (uint32_t)id, __ATOMIC_RELAXED);
    __atomic_store_n(&t->look_tick, now, __ATOMIC_RELEASE);
}

/* When the program gives up root, the C library changes the threads it knows; this one would stay as it is. */
NOT_SANITIZED static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    call(SYS_capset, (long)&header, (long)none, 0, 0);
}

/* A look that comes late, because the machine is busy, stands for two periods at most: what is not known is nobody's. */
NOT_SANITIZED static int watch_threads(void *arg)
{
    int64_t period = *(const int64_t *)arg;
    struct timespec pause = {.tv_nsec = PERIOD_NS};
    call(SYS_prctl, PR_SET_NAME, (long)"piano-watch", 0, 0);
    call(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0);
    drop_capabilities();
    int64_t last = piano__ticks();
    while (!atomic_load_explicit(&watch.stop, memory_order_relaxed)) {
        call(SYS_futex, (long)&watch.stop, FUTEX_WAIT_PRIVATE, 0, (long)&pause);
        int64_t now = piano__ticks();
        int64_t ticks = now - last < 2 * period ? now - last : 2 * period;
        uint32_t count = piano__blocks_count();
        for (uint32_t i = 0; i < count; i++) {
            struct piano__thread *t = piano__blocks_at(i);
            if (t)
                look_at(t, ticks, now);
        }
        last = now;
    }
    return 0;
}

static void start(void)
{
#if defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
    return; /* ThreadSanitizer does not know bare threads */
#endif
    const char *wanted = secure_getenv("PIANO_WATCH");
    if ((wanted && strcmp(wanted, "0") == 0) || !piano__clock_is_counter ||
        getpid() != piano__run.pid)
        return;
    uint64_t all = ~(uint64_t)0, before = 0;
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, SIGNAL_SET_BYTES);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    (void)clone(watch_threads, stack + sizeof stack, flags, &piano__watch_ticks);
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, SIGNAL_SET_BYTES);
}

void piano__watch_begin(void)
{
    int saved = errno;
    if (!atomic_load_explicit(&watch.started, memory_order_relaxed) &&
        !atomic_exchange(&watch.started, true))
        start();
    errno = saved;
}

void piano__watch_end(void)
{
    atomic_store(&watch.stop, 1);
    if (atomic_load(&watch.started))
        call(SYS_futex, (long)&watch.stop, FUTEX_WAKE_PRIVATE, 1, 0);
}

void piano__watch_forget(void)
{
    atomic_store(&watch.started, false);
    atomic_store(&watch.stop, 0);
}
