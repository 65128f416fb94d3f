/* Looks at threads from outside.
 *
 * A counted call leaves no time stamp. When one call in a million takes 20 ms, the samples miss it,
 * and its time would stay with the caller. But the inline probe sets `owner`, so the running
 * function is known at any moment. The watcher thread reads the owner of each thread in turn and
 * gives the function the time since its last look. These sums are right on average whatever the
 * program does, and a call longer than two periods is always seen. The reader compares them with
 * the estimates, frame by frame (tool/load/estimates.c).
 *
 * The watcher is not a C library thread: `pthread_create` would allocate. It is a bare clone on its
 * own stack and shares the thread-local memory of the thread that started it. So it must not call
 * the C library, which might set errno; it makes its system calls itself. All signals are blocked
 * in it. It starts when the first function is sampled, so a program with few calls never has one.
 * PIANO_WATCH=0 disables it. */
#include "target/span/watch.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
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

enum {
    PERIOD_NS = 1000000,
    TURN_LOOKS = 64,
    GAP_PART = 1250,  /* fraction of a period between two looks of a burst: 0.8 us */
    MASK_WORDS = 128, /* for 8192 CPUs */
    STACK_BYTES = 16384,
    SIGNAL_SET_BYTES = 8
};

#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

static struct {
    bool started;
    int stop;      /* the watcher waits on it */
    uint32_t cpus; /* CPUs this process may use */
} watch;

static __attribute__((aligned(64))) char stack[STACK_BYTES];

/* System call that does not set errno. */
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

NOT_SANITIZED static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

int64_t piano__watch_ticks;
bool piano__watch_runs;

void piano__watch_prepare(uint64_t ns_per_tick_32)
{
    uint64_t mask[MASK_WORDS] = {0};
    long bytes = call(SYS_sched_getaffinity, 0, sizeof mask, (long)mask, 0);
    watch.cpus = bytes > 0 ? 0 : UINT32_MAX;
    for (int i = 0; bytes > 0 && i < MASK_WORDS; i++)
        watch.cpus += (uint32_t)__builtin_popcountll(mask[i]);
    piano__watch_ticks = (int64_t)(((unsigned __int128)PERIOD_NS << 32) / ns_per_tick_32);
}

/* One burst of looks at a thread. */
struct burst {
    struct piano__found seen[PIANO_BURST];
    uint32_t count; /* number of functions */
    int64_t last;   /* slot of the last function seen; -1: none */
};

static inline struct piano__slot *slot_of(struct piano__thread *t, uint32_t id)
{
    return (struct piano__slot *)((struct piano__head *)(t + 1) + piano__capacity) + id;
}

NOT_SANITIZED static void add_seen(struct burst *b, uint32_t id, int64_t ticks)
{
    uint32_t i = 0;
    while (i < b->count && b->seen[i].slot != id)
        i++;
    if (i == b->count) {
        b->seen[i].slot = id;
        b->seen[i].ticks = 0;
        b->count++;
    }
    b->seen[i].ticks += ticks;
    b->last = (int64_t)id;
}

/* Looks once and adds TICKS to the function found, or to none while a probe runs. Returns false if
 * the thread is not running. */
NOT_SANITIZED static bool look(struct piano__thread *t, struct burst *b, int64_t ticks)
{
    if (__atomic_load_n(&t->state, __ATOMIC_RELAXED) != PIANO_THREAD_RUNNING)
        return false;
    uint64_t offset = __atomic_load_n(&t->owner, __ATOMIC_RELAXED) - (uintptr_t)(t + 1);
    uint64_t id = offset / sizeof(struct piano__head);
    if (id < piano__capacity && !__atomic_load_n(&t->probing, __ATOMIC_RELAXED))
        add_seen(b, (uint32_t)id, ticks);
    return true;
}

NOT_SANITIZED static int64_t ticks_in(const struct piano__found *seen, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (seen[i].slot == id)
            return seen[i].ticks;
    return 0;
}

/* Half of the squared difference between two bursts estimates the variance of one, as long as the
 * program does about the same in both. */
NOT_SANITIZED static void add_variance(struct piano__thread *t, uint32_t id, double difference)
{
    struct piano__slot *slot = slot_of(t, id);
    double sum = slot->looked_var + difference * difference / 2;
    __atomic_store(&slot->looked_var, &sum, __ATOMIC_RELAXED);
}

/* Adds B to the sums of the functions. Only the watcher writes these fields. */
NOT_SANITIZED static void keep_burst(struct piano__thread *t, const struct burst *b, int64_t now)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct piano__found *s = &b->seen[i];
        struct piano__slot *slot = slot_of(t, s->slot);
        __atomic_store_n(&slot->looked, slot->looked + s->ticks, __ATOMIC_RELAXED);
        add_variance(t, s->slot, (double)(s->ticks - ticks_in(t->burst, t->burst_count, s->slot)));
    }
    for (uint32_t i = 0; i < t->burst_count && i < PIANO_BURST; i++)
        if (ticks_in(b->seen, b->count, t->burst[i].slot) == 0)
            add_variance(t, t->burst[i].slot, (double)t->burst[i].ticks);
    for (uint32_t i = 0; i < b->count; i++) {
        t->burst[i].slot = b->seen[i].slot;
        t->burst[i].ticks = b->seen[i].ticks;
    }
    t->burst_count = b->count;
    if (b->last < 0)
        return;
    /* The time is stored last: the release pairs with the acquire in pay.c. */
    __atomic_store_n(&t->look_slot, (uint32_t)b->last, __ATOMIC_RELAXED);
    __atomic_store_n(&t->look_tick, now, __ATOMIC_RELEASE);
}

/* Returns whether T made no call since the last burst: it sleeps or is in a long call. */
NOT_SANITIZED static bool is_still(struct piano__thread *t)
{
    uint64_t counted = __atomic_load_n(&t->counted, __ATOMIC_RELAXED);
    uint64_t seq = __atomic_load_n(&t->seq, __ATOMIC_RELAXED);
    return counted == t->burst_counted && seq == t->burst_seq;
}

/* T made no call since the last burst and is in the function that was found then: the same call
 * took all of TICKS. */
NOT_SANITIZED static void add_held(struct piano__thread *t, const struct burst *b, int64_t ticks)
{
    if (b->last < 0 || t->burst_count == 0 || (uint32_t)b->last != t->look_slot)
        return;
    struct piano__slot *slot = slot_of(t, t->look_slot);
    __atomic_store_n(&slot->held, slot->held + ticks, __ATOMIC_RELAXED);
}

/* Looks COUNT times at T and divides the TICKS since the last burst among the functions found. */
NOT_SANITIZED static void look_at(struct piano__thread *t, int count, int64_t ticks, int64_t gap)
{
    struct burst b;
    b.count = 0;
    b.last = -1;
    bool still = is_still(t);
    count = still ? 1 : count;
    t->burst_counted = __atomic_load_n(&t->counted, __ATOMIC_RELAXED);
    t->burst_seq = __atomic_load_n(&t->seq, __ATOMIC_RELAXED);
    int64_t now = piano__ticks();
    for (int i = 0; i < count && look(t, &b, ticks / count); i++)
        for (int64_t next = now + gap; i + 1 < count && (now = piano__ticks()) < next;)
            pause_cpu();
    if (still)
        add_held(t, &b, ticks);
    keep_burst(t, &b, now);
}

/* When the program gives up root, the C library changes only the threads it knows, not this one. */
NOT_SANITIZED static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    call(SYS_capset, (long)&header, (long)none, 0, 0);
}

/* Busy threads share the looks of one turn. When they use all CPUs, a burst would interrupt one of
 * them, so the watcher looks only once. */
NOT_SANITIZED static void look_at_all(int64_t ticks, int64_t gap)
{
    uint32_t blocks = piano__blocks_count(), busy = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        struct piano__thread *t = piano__blocks_at(i);
        busy += t && __atomic_load_n(&t->state, __ATOMIC_RELAXED) == PIANO_THREAD_RUNNING &&
                !is_still(t);
    }
    int each = busy > 0 && busy < watch.cpus ? TURN_LOOKS / (int)busy : 1;
    each = each < 1 ? 1 : each > PIANO_BURST ? PIANO_BURST : each;
    for (uint32_t i = 0; i < blocks; i++) {
        struct piano__thread *t = piano__blocks_at(i);
        if (t)
            look_at(t, each, ticks, gap);
    }
}

NOT_SANITIZED static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/* A late look, on a busy machine, stands for two periods at most. The time beyond is not
 * attributed. */
NOT_SANITIZED static int watch_threads(void *arg)
{
    int64_t period = *(const int64_t *)arg;
    struct timespec pause = {.tv_nsec = PERIOD_NS};
    call(SYS_prctl, PR_SET_NAME, (long)"piano-watch", 0, 0);
    call(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0);
    drop_capabilities();
    int64_t last = piano__ticks();
    uint64_t random = (uint64_t)last | 1;
    while (!__atomic_load_n(&watch.stop, __ATOMIC_RELAXED)) {
        call(SYS_futex, (long)&watch.stop, FUTEX_WAIT_PRIVATE, 0, (long)&pause);
        int64_t now = piano__ticks();
        int64_t ticks = now - last < 2 * period ? now - last : 2 * period;
        look_at_all(ticks, period / GAP_PART);
        last = now;
        pause.tv_nsec = PERIOD_NS * 3 / 4 + (long)(next_random(&random) % (PERIOD_NS / 2));
    }
    return 0;
}

static void start(void)
{
#if defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
    return; /* ThreadSanitizer does not support bare threads */
#endif
    const char *wanted = secure_getenv("PIANO_WATCH");
    if ((wanted && strcmp(wanted, "0") == 0) || !piano__clock_is_counter ||
        getpid() != piano__run.pid)
        return;
    uint64_t all = ~(uint64_t)0, before = 0;
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, SIGNAL_SET_BYTES);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(watch_threads, stack + sizeof stack, flags, &piano__watch_ticks) > 0)
        __atomic_store_n(&piano__watch_runs, true, __ATOMIC_RELAXED);
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, SIGNAL_SET_BYTES);
}

void piano__watch_begin(void)
{
    int saved = errno;
    /* One thread starts it: the exchange pairs with itself. */
    if (!__atomic_load_n(&watch.started, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&watch.started, true, __ATOMIC_SEQ_CST))
        start();
    errno = saved;
}

void piano__watch_end(void)
{
    /* Pairs with the futex wait of the watcher, and with the exchange above. */
    __atomic_store_n(&watch.stop, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&watch.started, __ATOMIC_SEQ_CST))
        call(SYS_futex, (long)&watch.stop, FUTEX_WAKE_PRIVATE, 1, 0);
}

void piano__watch_forget(void)
{
    /* The child of a fork has one thread: rule 7, no partner. */
    __atomic_store_n(&piano__watch_runs, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&watch.started, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&watch.stop, 0, __ATOMIC_SEQ_CST);
}
