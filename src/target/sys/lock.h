/* A lock for what happens rarely and is over soon, such as adding to a table. It is never waited for without end: its holder
 * may be this very thread, interrupted by a signal, or a thread that did not come along in a fork. */
#ifndef PIANO_TARGET_SYS_LOCK_H
#define PIANO_TARGET_SYS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Spins, then sleeps for up to 20 ms. Returns false on timeout, and at once when this thread holds it. A holder that a signal handler
 * has jumped out of holds it no more: so what a lock protects must be usable after any of its stores. */
bool piano__lock_try(uint32_t *lock);
void piano__lock_release(uint32_t *lock);
/* In a forked child, where all locks are free. */
void piano__lock_forget(void);

#endif
