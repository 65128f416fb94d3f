/* A lock for what happens rarely and is over soon, such as adding to a table. It is never waited for without end: its holder
 * may be this very thread, interrupted by a signal, or a thread that did not come along in a fork. */
#ifndef PIANO_TARGET_SYS_LOCK_H
#define PIANO_TARGET_SYS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* False when it could not be had in some milliseconds. */
bool piano__lock_try(uint32_t *lock);

static inline void piano__lock_release(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
