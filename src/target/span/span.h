/* The span stack; see span.c. The entry points are in common/probe.h. */
#ifndef PIANO_TARGET_SPAN_SPAN_H
#define PIANO_TARGET_SPAN_SPAN_H

#include "target/span/thread.h"

/* Ends all timed calls of the calling thread as of NOW. */
void piano__span_close_all(struct piano__thread *t, int64_t now);

#endif
