/* Counting allocations for the function that makes them: exact, exclusive, a few instructions. Each counter
 * changes with one, so that a signal handler which ends a frame in between does no harm. */
#ifndef PIANO_TARGET_HEAP_COUNT_H
#define PIANO_TARGET_HEAP_COUNT_H

#include "target/span/frame.h"
#include "target/span/run.h"
#include "target/span/thread.h"

/* The slot that pays, or NULL outside of instrumented functions. */
static inline struct piano__slot *piano__count_owner(struct piano__thread *t)
{
    struct piano__slot *slot = piano__owner(t);
    if (!slot || t->state != PIANO_THREAD_RUNNING)
        return NULL;
    if (__builtin_expect(!slot->in_now, 0)) {
        if (t->busy)
            return NULL;
        piano__frame_touch(t, slot);
    }
    return slot;
}

static inline void piano__count_alloc(struct piano__thread *t, uint64_t bytes)
{
    struct piano__slot *slot = piano__count_owner(t);
    if (slot) {
        t->overhead += piano__run.bias_alloc;
        slot->now.alloc_count++;
        slot->now.alloc_bytes += bytes;
    }
}

static inline void piano__count_free(struct piano__thread *t, uint64_t bytes)
{
    struct piano__slot *slot = piano__count_owner(t);
    if (slot) {
        t->overhead += piano__run.bias_free;
        slot->now.free_count++;
        slot->now.free_bytes += bytes;
    }
}

#endif
