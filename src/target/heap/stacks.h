/* Distinct call stacks and their numbers, and the sums kept for each. Any thread; look-ups are lock-free. */
#ifndef PIANO_TARGET_HEAP_STACKS_H
#define PIANO_TARGET_HEAP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/unwind/walk.h"

/* Room for MOST stacks; false when there is no memory. Once per recording. */
bool piano__stacks_init(uint32_t most);
/* Has room for the first stacks in the recording, and the modules of WALK. */
bool piano__stacks_prepare(const struct piano__walk *walk);
/* In a forked child. */
void piano__stacks_forget(void);
/* The number of the stack, new or old; 0 when there is no room for it. */
uint32_t piano__stacks_intern(const struct piano__walk *walk);
/* Never NULL for a number that was given out. */
struct piano__totals *piano__stacks_totals(uint32_t id);
/* The stack of a number; NULL for 0 and numbers that were not given out. */
const struct piano__stack *piano__stacks_record(uint32_t id);

#endif
