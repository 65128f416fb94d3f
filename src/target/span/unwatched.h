/* Self time from before the watcher ran. */
#ifndef PIANO_TARGET_SPAN_UNWATCHED_H
#define PIANO_TARGET_SPAN_UNWATCHED_H

#include "target/span/thread.h"
#include "target/span/watch.h"

/* Called at NOW when T notices that the watcher runs. */
void piano__unwatched_end(struct piano__thread *t, int64_t now);

/* Called when a timed call of SLOT ends at NOW with SELF ticks, until T notices that the watcher
 * runs. */
static inline void piano__unwatched_add(struct piano__thread *t, struct piano__slot *slot,
                                        int64_t self, int64_t now)
{
    slot->unwatched += self;
    if (__atomic_load_n(&piano__watch_runs, __ATOMIC_RELAXED))
        piano__unwatched_end(t, now);
}

#endif
