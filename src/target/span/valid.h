/* Checks a thread's block, in builds for tests (sys/check.h). */
#ifndef PIANO_TARGET_SPAN_VALID_H
#define PIANO_TARGET_SPAN_VALID_H

#ifdef PIANO_CHECK

#include <stdbool.h>

#include "target/span/thread.h"

/* Returns whether the span stack, the open calls of each function and the three lists agree. Only
 * for the calling thread, while its tables do not change. */
bool piano__span_is_valid(struct piano__thread *t);

#endif
#endif
