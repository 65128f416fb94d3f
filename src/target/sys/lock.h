/* A lock for rare and short operations, such as adding to a table. Waiting always has a timeout,
 * because the holder may be this thread, interrupted by a signal, or a thread that does not exist
 * in a forked child. */
#ifndef PIANO_TARGET_SYS_LOCK_H
#define PIANO_TARGET_SYS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Spins, then sleeps for up to 20 ms. Returns false on timeout, and immediately if this thread
 * holds the lock. If a signal handler has jumped out of the holder, the lock is taken over. So the
 * data under a lock must be valid after each single store. */
bool piano__lock_try(uint32_t *lock);
void piano__lock_release(uint32_t *lock);
/* Call in a forked child, where all locks are free. */
void piano__lock_forget(void);

#endif
