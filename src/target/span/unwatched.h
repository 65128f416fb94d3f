/* Time before the watcher ran. */
#ifndef PIANO_TARGET_SPAN_UNWATCHED_H
#define PIANO_TARGET_SPAN_UNWATCHED_H

#include "target/span/thread.h"

/* A timed call of SLOT has ended at NOW, with SELF ticks of its own, and T has not noticed yet that the watcher runs. */
void piano__unwatched_add(struct piano__thread *t, struct piano__slot *slot, int64_t self,
                          int64_t now);

#endif
