/* Numbers the distinct call stacks, and keeps sums for each. Any thread; look-ups are lock-free. */
#ifndef PIANO_TARGET_HEAP_STACKS_H
#define PIANO_TARGET_HEAP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/unwind/walk.h"

/* Makes room for MOST stacks. Returns false if there is no memory. Once per recording. */
bool piano__stacks_init(uint32_t most);
/* Makes room for the first stacks in the recording, and records the modules of WALK. */
bool piano__stacks_prepare(const struct piano__walk *walk);
/* Call in a forked child. */
void piano__stacks_forget(void);
/* Returns the number of the stack, and adds it if it is new. Returns 0 if there is no room for
 * it. */
uint32_t piano__stacks_intern(const struct piano__walk *walk);
/* Never returns NULL for a valid number. */
struct piano__totals *piano__stacks_totals(uint32_t id);
/* Returns the stack with number ID; NULL for 0 and for unused numbers. */
const struct piano__stack *piano__stacks_record(uint32_t id);
#ifdef PIANO_CHECK
/* Returns whether the index leads to each stack that it has, and the stacks are as they were added
 * (sys/check.h). Takes the lock; true if it is not available in time. */
bool piano__stacks_is_valid(void);
#endif

#endif
