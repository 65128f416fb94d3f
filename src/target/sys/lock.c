/* Spins first, then sleeps between tries: on a busy machine the lock holder may be preempted.
 *
 * A thread records which locks it holds, and at which stack pointer it took them. If it finds one
 * of its own locks taken, a signal handler has interrupted the holder, so it does not wait. If the
 * handler has jumped out of the holder, it takes over the lock. Neither works for a thread that
 * holds more than MOST_HELD locks, or that left its code between taking a lock and recording it. */
#include "target/sys/lock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sys/stack.h"

enum { SPINS = 200, NAPS = 400, NAP_NS = 50000, MOST_HELD = 4 };

static __thread struct {
    struct held {
        uint32_t *lock;
        uintptr_t at;
    } held[MOST_HELD];
    struct piano__stack_bounds stack;
} self __attribute__((tls_model("initial-exec")));

static struct held *find_held(const uint32_t *lock)
{
    for (int i = 0; i < MOST_HELD; i++)
        if (self.held[i].lock == lock)
            return &self.held[i];
    return NULL;
}

static void note(uint32_t *lock, uintptr_t at)
{
    struct held *free = find_held(NULL);
    if (!free)
        return;
    free->at = at;
    /* A signal handler that sees `lock` also sees `at`. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    free->lock = lock;
}

static bool wait_for(uint32_t *lock)
{
    const struct timespec nap = {0, NAP_NS};
    int saved = errno;
    bool taken = false;
    for (int i = 0; i < SPINS + NAPS && !taken; i++) {
        /* Not nanosleep(): that is a cancellation point. */
        if (i >= SPINS)
            syscall(SYS_nanosleep, &nap, NULL);
        /* Pairs with the release in piano__lock_release(). */
        taken = !__atomic_load_n(lock, __ATOMIC_RELAXED) &&
                !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
    }
    errno = saved;
    return taken;
}

bool piano__lock_try(uint32_t *lock)
{
    uintptr_t here = piano__stack_pointer();
    struct held *held = find_held(lock);
    /* Relaxed: if this thread holds the lock, only this thread changes it. */
    if (held && __atomic_load_n(lock, __ATOMIC_RELAXED)) {
        if (!piano__stack_is_left(&self.stack, held->at, here))
            return false;
        held->at = here;
        return true;
    }
    /* A forked child has reset the lock. */
    if (held)
        held->lock = NULL;
    if (!wait_for(lock))
        return false;
    note(lock, here);
    return true;
}

void piano__lock_release(uint32_t *lock)
{
    struct held *held = find_held(lock);
    /* First, so that a recorded lock is always held. */
    if (held)
        held->lock = NULL;
    /* Pairs with the acquire in wait_for(). */
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

void piano__lock_forget(void)
{
    for (int i = 0; i < MOST_HELD; i++)
        self.held[i].lock = NULL;
}
