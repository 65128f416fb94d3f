/* Tables whose holder does not return: a signal handler interrupted it and left by siglongjmp, or
 * is ending the thread. */
#ifndef PIANO_TARGET_SPAN_REPAIR_H
#define PIANO_TARGET_SPAN_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/live.h"

/* Repairs the busy tables of T if their holder cannot return, given that a probe runs at the stack
 * address HERE. Returns false if the holder may be alive. */
bool piano__repair_left(struct piano__thread *t, uintptr_t here);
/* Repairs them unconditionally. The caller must know that the holder does not return. */
void piano__repair(struct piano__thread *t);

#endif
