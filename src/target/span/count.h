/* Counts allocations for the function that makes them: exact, exclusive, a few instructions. Each
 * counter is updated by one instruction, so a signal handler that ends a frame in between does no
 * harm. */
#ifndef PIANO_TARGET_SPAN_COUNT_H
#define PIANO_TARGET_SPAN_COUNT_H

#include "target/span/frame.h"
#include "target/span/run.h"
#include "target/span/thread.h"

/* True if the allocator calls its own functions by name, so that inner calls reach the hooks again.
 * Then only the outermost call is the program's. Otherwise, a nested call comes from a signal
 * handler and counts like any other. */
extern bool piano__hooks_nest;

/* The hooks also see the calls of a program that was linked with preload/wrap.c. Then only they
 * count. */
extern bool piano__count_is_hooked;

/* Hooks of this thread that have called the allocator and not returned. */
extern __thread int piano__hooks_open
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Returns the slot that allocations are charged to, or NULL outside of instrumented functions. */
static inline struct piano__slot *piano__count_owner(struct piano__thread *t)
{
    if (!t->owner)
        return NULL;
    struct piano__slot *slot = piano__owner(t);
    if (!slot)
        return NULL;
    if (__builtin_expect(t->state != PIANO_THREAD_RUNNING, 0))
        return NULL;
    if (__builtin_expect(!slot->in_now, 0)) {
        if (t->busy)
            return NULL;
        /* A signal handler may allocate in another function meanwhile. */
        uintptr_t before = piano__hold(t);
        piano__frame_touch(t, slot);
        piano__let_go(t, before);
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
        t->overhead += piano__run.bias_alloc;
        slot->now.free_count++;
        slot->now.free_bytes += bytes;
    }
}

/* Call these before and after the allocator. `piano__hook_begin` returns true for the outermost
 * call. */
static inline bool piano__hook_begin(void)
{
    return piano__hooks_open++ == 0 || !piano__hooks_nest;
}

static inline void *piano__hook_done(bool outermost, void *p, uint64_t bytes)
{
    piano__hooks_open--;
    if (p && outermost)
        piano__count_alloc(piano__self_thread(), bytes);
    return p;
}

#endif
