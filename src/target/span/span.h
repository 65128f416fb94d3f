/* The stack of timed calls; see span.c. common/probe.h declares the entry points. */
#ifndef PIANO_TARGET_SPAN_SPAN_H
#define PIANO_TARGET_SPAN_SPAN_H

#include "target/span/thread.h"

/* Ends all timed calls of the calling thread at NOW. */
void piano__span_close_all(struct piano__thread *t, int64_t now);

#endif
