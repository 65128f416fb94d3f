/* Tables whose holder is gone: a signal handler interrupted it and left with siglongjmp, or ends the thread. */
#ifndef PIANO_TARGET_SPAN_REPAIR_H
#define PIANO_TARGET_SPAN_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/live.h"

/* Repairs the tables of T, which are busy, when their holder cannot come back: a probe runs at the stack address HERE. False
 * when the holder may be alive. */
bool piano__repair_left(struct piano__thread *t, uintptr_t here);
/* Repairs them; the caller knows that the holder does not come back. */
void piano__repair(struct piano__thread *t);

#endif
