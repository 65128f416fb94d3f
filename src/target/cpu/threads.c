/* A table of threads. A new thread adds itself, and the destructor of a pthread key removes it.
 * Threads that existed before are found in /proc and added from outside. Whenever a thread begins,
 * one such entry is checked for whether its thread still exists. All of this is under a lock, and
 * never in a handler.
 *
 * A handler finds its thread in TLS. A thread that was added from outside has nothing there at
 * first. Then the signal contains the entry, which is valid if its tid is that of the thread: a
 * signal may be delivered after its timer was deleted and the entry given to another thread.
 *
 * Samples that were not taken, because the program blocks the signal or the kernel did not deliver
 * it, are detected: the thread's CPU time is compared with what its samples represent. */
#include "target/cpu/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/cpu/perf.h"
#include "target/cpu/timer.h"
#include "target/sys/file.h"
#include "target/sys/key.h"
#include "target/sys/lock.h"
#include "target/record/stats.h"

enum {
    MOST_THREADS = 16 * 1024,
    PASSES = 8,
    LOCK_TRIES = 20, /* less than a second */
    SECOND = 1000000000,
    SLACK_NS = 20000000, /* two ticks of the slowest kernel */
};

static struct {
    struct piano__cpu_thread *all;
    uint32_t lock;
    uint32_t count; /* entries ever used */
    uint32_t free;  /* number + 1 of the first free one */
    uint32_t known; /* entries in use */
    uint32_t outside;
    uint32_t hand; /* the next one to check */
    struct piano__cpu_wish wish;
    bool is_perf;  /* `wish` uses perf; for handlers, which read it without the lock */
    bool was_perf; /* ever: one of its signals may arrive late */
    int signal;
    pid_t pid;
} threads;

static struct piano__cpu_thread ended; /* in the TLS of a thread that has ended */
static __thread struct piano__cpu_thread *self;

static pthread_key_t end_key;
static bool have_end_key;

bool piano__cpu_threads_init(const struct piano__cpu_wish *wish, int signal)
{
    threads.wish = *wish;
    threads.signal = signal;
    /* Relaxed: settings. The gate is shut. */
    __atomic_store_n(&threads.is_perf, wish->source != PIANO_CPU_TIMERS, __ATOMIC_RELAXED);
    if (threads.is_perf)
        __atomic_store_n(&threads.was_perf, true, __ATOMIC_RELAXED);
    if (!threads.all)
        /* Pairs with the acquire in entry_of(): the table is mapped. */
        __atomic_store_n(&threads.all, piano__memory_map(MOST_THREADS * sizeof *threads.all),
                         __ATOMIC_RELEASE);
    threads.pid = (pid_t)syscall(SYS_getpid);
    return threads.all != NULL;
}

void piano__cpu_threads_forget(void)
{
    for (uint32_t i = 0; i < threads.count; i++)
        piano__cpu_perf_drop(&threads.all[i]);
    if (threads.all)
        piano__memory_unmap(threads.all, MOST_THREADS * sizeof *threads.all);
    memset(&threads, 0, sizeof threads);
    self = NULL;
}

/* One thread ----------------------------------------------------------------------------------- */

static uint64_t period_ns(void)
{
    return SECOND / threads.wish.hz;
}

static int arm_locked(struct piano__cpu_thread *t)
{
    if (t->is_armed)
        return 0;
    t->begun_ns = t->last_ns = piano__cpu_time_of(t->tid);
    /* Relaxed: the thread is not sampled yet. */
    __atomic_store_n(&t->sampled_ns, 0, __ATOMIC_RELAXED);
    int err = threads.wish.source == PIANO_CPU_TIMERS
                  ? piano__cpu_timer_start(t, period_ns(), threads.signal)
                  : piano__cpu_perf_open(t, &threads.wish, threads.signal);
    t->is_armed = err == 0;
    if (err != 0 && err != -ESRCH)
        piano__trace_add(&piano__trace_stats()->threads_missed, 1);
    return err;
}

/* Returns how many samples are missing, beyond those that may still arrive. If time in the kernel
 * is not sampled, the expected number is unknown. */
static uint64_t missing_locked(struct piano__cpu_thread *t)
{
    uint64_t now = piano__cpu_time_of(t->tid);
    uint64_t due = __atomic_load_n(&t->sampled_ns, __ATOMIC_RELAXED) + t->begun_ns;
    bool is_all = threads.wish.source == PIANO_CPU_TIMERS || threads.wish.kernel;
    if (!is_all || now < due + 2 * period_ns() + SLACK_NS)
        return 0;
    t->begun_ns += now - due;
    return (now - due) / period_ns();
}

static void settle_locked(struct piano__cpu_thread *t)
{
    uint64_t missing = t->is_armed ? missing_locked(t) : 0;
    if (missing > 0)
        piano__trace_add(&piano__trace_stats()->samples_lost, missing);
}

static void disarm_locked(struct piano__cpu_thread *t)
{
    if (!t->is_armed)
        return;
    settle_locked(t);
    t->is_armed = false;
    if (t->fd_id)
        piano__cpu_perf_close(t);
    else
        piano__cpu_timer_stop(t);
}

/* All threads ---------------------------------------------------------------------------------- */

static struct piano__cpu_thread *take_locked(uint32_t tid)
{
    struct piano__cpu_thread *t;
    if (threads.free) {
        t = &threads.all[threads.free - 1];
        threads.free = t->next;
    } else if (threads.count < MOST_THREADS) {
        t = &threads.all[threads.count];
        /* Pairs with the acquire loads in handlers. `tid` publishes the entry itself. */
        __atomic_store_n(&threads.count, threads.count + 1, __ATOMIC_RELEASE);
    } else {
        piano__trace_add(&piano__trace_stats()->threads_missed, 1);
        return NULL;
    }
    __atomic_store_n(&threads.known, threads.known + 1, __ATOMIC_RELAXED);
    t->is_outside = false;
    t->samples = 0;
    t->name[0] = '\0';
    memset(&t->walker, 0, sizeof t->walker);
    /* Pairs with the acquire in entry_of_this_thread() and piano__cpu_thread_of(). */
    __atomic_store_n(&t->tid, tid, __ATOMIC_RELEASE);
    return t;
}

/* T has ended, or is about to end, and is not in a handler. */
static void give_locked(struct piano__cpu_thread *t)
{
    disarm_locked(t);
    piano__cpu_perf_free(t);
    threads.outside -= t->is_outside;
    __atomic_store_n(&threads.known, threads.known - 1, __ATOMIC_RELAXED);
    /* Pairs with the acquire in entry_of_this_thread() and piano__cpu_thread_of(). */
    __atomic_store_n(&t->tid, 0, __ATOMIC_RELEASE);
    t->next = threads.free;
    threads.free = (uint32_t)(t - threads.all) + 1;
}

static struct piano__cpu_thread *find_locked(uint32_t tid)
{
    for (uint32_t i = 0; i < threads.count; i++) {
        if (threads.all[i].tid == tid)
            return &threads.all[i];
    }
    return NULL;
}

/* Frees an entry that was added from outside and whose thread has ended. */
static void check_locked(struct piano__cpu_thread *t)
{
    if (t->tid && t->is_outside && syscall(SYS_tgkill, threads.pid, t->tid, 0) != 0)
        give_locked(t);
}

static void check_next_locked(void)
{
    if (threads.outside == 0 || threads.count == 0)
        return;
    threads.hand = (threads.hand + 1) % threads.count;
    check_locked(&threads.all[threads.hand]);
}

/* Ignores the value of the key: it may be from before a fork. */
static void end_of_thread(void *of)
{
    struct piano__cpu_thread *t = self;
    int saved = errno;
    (void)of;
    self = &ended;
    /* A handler sees either `ended`, or an entry that is still valid. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (t && t != &ended && piano__lock_try(&threads.lock)) {
        give_locked(t);
        piano__lock_release(&threads.lock);
    }
    errno = saved;
}

__attribute__((constructor(101))) static void make_key(void)
{
    have_end_key = piano__key_create(&end_key, end_of_thread);
}

/* Adds the calling thread. An entry with its tid that is not in its TLS was added from outside, or
 * its thread has ended. */
static int enter_locked(void)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    if (!self && threads.outside > 0) {
        struct piano__cpu_thread *old = find_locked(tid);
        if (old)
            give_locked(old);
    }
    if (!self)
        self = take_locked(tid);
    if (!self)
        return -EAGAIN;
    threads.outside -= self->is_outside;
    self->is_outside = false;
    if (have_end_key)
        pthread_setspecific(end_key, self);
    return arm_locked(self);
}

void piano__cpu_threads_attach(void)
{
    int saved = errno;
    if (self == &ended || !piano__cpu_is_on())
        return;
    if (!piano__lock_try(&threads.lock)) {
        piano__trace_add(&piano__trace_stats()->threads_missed, 1);
        return;
    }
    if (piano__cpu_is_on()) {
        check_next_locked();
        (void)enter_locked();
    }
    /* The thread that shut the gate may not have waited for the lock. */
    if (!piano__cpu_is_on() && self)
        disarm_locked(self);
    piano__lock_release(&threads.lock);
    errno = saved;
}

/* Adds a thread that existed before. Returns 1 if it was new. */
static unsigned enter_task_locked(const char *name)
{
    uint32_t tid = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        tid = tid * 10 + (uint32_t)(*name - '0');
    if (tid == 0 || find_locked(tid))
        return 0;
    struct piano__cpu_thread *t = take_locked(tid);
    if (!t)
        return 0;
    t->is_outside = true;
    threads.outside++;
    if (arm_locked(t) == -ESRCH)
        give_locked(t);
    return 1;
}

struct entry { /* directory entry, as returned by the kernel */
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static unsigned enter_tasks_locked(void)
{
    _Alignas(struct entry) char buf[1024];
    unsigned fresh = 0;
    long got;
    int fd = piano__file_open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    while (fd >= 0 && (got = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0) {
        for (long at = 0; at < got;) {
            const struct entry *e = (const void *)(buf + at);
            fresh += enter_task_locked(e->name);
            at += e->bytes;
        }
    }
    if (fd >= 0)
        piano__file_close(fd);
    return fresh;
}

int piano__cpu_threads_arm(void)
{
    if (!piano__lock_try(&threads.lock))
        return -EBUSY;
    int err = self == &ended ? 0 : enter_locked();
    for (uint32_t i = 0; i < threads.count && err == 0; i++) {
        struct piano__cpu_thread *t = &threads.all[i];
        check_locked(t);
        if (t->tid)
            (void)arm_locked(t);
    }
    /* Threads that begin meanwhile may be started by threads that are not added yet. */
    for (int i = 0; i < PASSES && err == 0 && enter_tasks_locked() > 0; i++)
        ;
    piano__lock_release(&threads.lock);
    return err;
}

/* Continues without the lock if it is not available for long: its holder may be this thread,
 * interrupted by a signal handler. */
bool piano__cpu_threads_disarm(void)
{
    bool is_locked = false;
    for (int i = 0; i < LOCK_TRIES && !is_locked; i++)
        is_locked = piano__lock_try(&threads.lock);
    for (uint32_t i = 0; i < threads.count; i++) {
        if (threads.all[i].tid)
            disarm_locked(&threads.all[i]);
    }
    if (is_locked)
        piano__lock_release(&threads.lock);
    return is_locked;
}

void piano__cpu_threads_settle(void)
{
    if (!threads.all || !piano__lock_try(&threads.lock))
        return;
    for (uint32_t i = 0; i < threads.count; i++) {
        if (threads.all[i].tid)
            settle_locked(&threads.all[i]);
    }
    piano__lock_release(&threads.lock);
}

uint32_t piano__cpu_threads_count(void)
{
    return __atomic_load_n(&threads.known, __ATOMIC_RELAXED);
}

/* In a handler --------------------------------------------------------------------------------- */

static struct piano__cpu_thread *entry_of(const siginfo_t *info)
{
    /* Pairs with the release in piano__cpu_threads_init(). */
    struct piano__cpu_thread *all = __atomic_load_n(&threads.all, __ATOMIC_ACQUIRE);
    uint64_t offset = (uint64_t)((uintptr_t)info->si_value.sival_ptr - (uintptr_t)all);
    /* Pairs with the release in take_locked(). */
    uint32_t count = __atomic_load_n(&threads.count, __ATOMIC_ACQUIRE);
    if (info->si_code != SI_TIMER || !all || offset % sizeof *all || offset / sizeof *all >= count)
        return NULL;
    return &all[offset / sizeof *all];
}

/* Also finds an entry that was added from outside and is not in TLS yet. */
static struct piano__cpu_thread *entry_of_this_thread(void)
{
    /* Pairs with the release in take_locked(). */
    uint32_t count = __atomic_load_n(&threads.count, __ATOMIC_ACQUIRE);
    uint32_t tid = self ? self->tid : (uint32_t)syscall(SYS_gettid);
    struct piano__cpu_thread *t = self;
    for (uint32_t i = 0; i < count && !t; i++)
        /* Pairs with the release in take_locked(). */
        t = __atomic_load_n(&threads.all[i].tid, __ATOMIC_ACQUIRE) == tid ? &threads.all[i] : NULL;
    return t;
}

/* Signals of perf contain a descriptor, which identifies the thread's event only in that thread. */
static bool may_be_of_perf(const siginfo_t *info)
{
    /* Relaxed: settings. */
    return __atomic_load_n(&threads.was_perf, __ATOMIC_RELAXED) && info->si_code >= POLL_IN &&
           info->si_code <= POLL_HUP;
}

static bool is_of_perf(const siginfo_t *info)
{
    return __atomic_load_n(&threads.is_perf, __ATOMIC_RELAXED) && may_be_of_perf(info);
}

bool piano__cpu_may_be_ours(const siginfo_t *info)
{
    /* If the kernel is out of memory, a signal arrives without its details. */
    bool is_blank = info->si_code == SI_USER && info->si_pid == 0;
    return entry_of(info) || may_be_of_perf(info) || is_blank;
}

struct piano__cpu_thread *piano__cpu_thread_of(const siginfo_t *info)
{
    struct piano__cpu_thread *t = entry_of(info);
    if (self == &ended)
        return NULL;
    if (!t && is_of_perf(info)) {
        t = entry_of_this_thread();
        if (t && t->fd != info->si_fd)
            t = NULL;
    }
    /* Pairs with the release in take_locked(). */
    if (t && !self && __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE) == (uint32_t)syscall(SYS_gettid))
        self = t;
    return t == self ? t : NULL;
}

/* Before an exec ------------------------------------------------------------------------------- */

/* At an exec, the kernel drops pending signals of timers, but not those of perf events. The new
 * program has no handler for them and would be ended. A child of vfork, which shares the memory,
 * has no event of its own to pause. */
void piano__cpu_thread_pause(bool is_pause)
{
    if (!__atomic_load_n(&threads.is_perf, __ATOMIC_RELAXED) || self == &ended ||
        (pid_t)syscall(SYS_getpid) != threads.pid)
        return;
    struct piano__cpu_thread *t = entry_of_this_thread();
    if (t)
        piano__cpu_perf_pause(t, is_pause, threads.signal);
}
