/* First by looking again and again, then by sleeping in between: on a busy machine the holder may have lost its processor.
 *
 * A thread knows which locks it holds, and at which stack pointer it took them. If it finds one of these taken, a signal handler has
 * interrupted the holder: it does not wait then. If the handler has jumped out of the holder, the lock is taken over. A
 * thread that holds more than MOST_HELD at a time, or is left right between taking a lock and noting it, gets neither. */
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
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a handler that finds `lock` finds the rest */
    free->lock = lock;
}

static bool wait_for(uint32_t *lock)
{
    const struct timespec nap = {0, NAP_NS};
    int saved = errno;
    bool taken = false;
    for (int i = 0; i < SPINS + NAPS && !taken; i++) {
        if (i >= SPINS)
            syscall(SYS_nanosleep, &nap, NULL); /* not nanosleep: that may end a cancelled thread */
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
    if (held && __atomic_load_n(lock, __ATOMIC_RELAXED)) {
        if (!piano__stack_is_left(&self.stack, held->at, here))
            return false;
        held->at = here;
        return true;
    }
    if (held)
        held->lock = NULL; /* it was set free in a forked child */
    if (!wait_for(lock))
        return false;
    note(lock, here);
    return true;
}

void piano__lock_release(uint32_t *lock)
{
    struct held *held = find_held(lock);
    if (held)
        held->lock = NULL; /* first: a lock that is noted is held */
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

void piano__lock_forget(void)
{
    for (int i = 0; i < MOST_HELD; i++)
        self.held[i].lock = NULL;
}
