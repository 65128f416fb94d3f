/* First by looking again and again, then by sleeping in between: on a busy machine the holder may have lost its processor. */
#include "target/sys/lock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 200, NAPS = 400, NAP_NS = 50000 };

bool piano__lock_try(uint32_t *lock)
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
