/* The span stack; see span.c. The entry points are in common/probe.h. */
#ifndef PIANO_TARGET_SPAN_SPAN_H
#define PIANO_TARGET_SPAN_SPAN_H

#include "target/span/thread.h"

/* Ends all timed calls of the calling thread as of NOW. */
void piano__span_close_all(struct piano__thread *t, int64_t now);

/* How often the sampled call in E has called its own function, directly or not. */
int64_t piano__span_calls_below(struct piano__thread *t, const struct piano__slot *slot,
                                const struct piano__entry *e);

#endif
