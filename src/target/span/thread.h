/* A thread as the runtime sees it: a block of the live image (common/live.h) and how to get and leave one.
 * The heads of the structs are what the inline probe knows (common/probe.h). */
#ifndef PIANO_TARGET_SPAN_THREAD_H
#define PIANO_TARGET_SPAN_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/live.h"
#include "common/probe.h"

_Static_assert(offsetof(struct piano__thread, limit) == offsetof(struct __piano_thread, limit), "");
_Static_assert(offsetof(struct piano__thread, owner) == offsetof(struct __piano_thread, owner), "");
_Static_assert(offsetof(struct piano__thread, attributed) ==
                   offsetof(struct __piano_thread, attributed),
               "");
_Static_assert(offsetof(struct piano__thread, overhead) ==
                   offsetof(struct __piano_thread, overhead),
               "");
_Static_assert(offsetof(struct piano__slot, left) == offsetof(struct __piano_slot, left), "");
_Static_assert(offsetof(struct piano__slot, estimate) == offsetof(struct __piano_slot, estimate),
               "");
_Static_assert(offsetof(struct piano__slot, cost) == offsetof(struct __piano_slot, cost), "");
_Static_assert(sizeof(struct piano__slot) % 16 == 0, "owners and kept guards are even");
_Static_assert(sizeof(struct piano__thread) % 16 == 0, "slots follow the thread");

static inline uint64_t piano__slot_offset(uint32_t id)
{
    return sizeof(struct piano__thread) + (uint64_t)id * sizeof(struct piano__slot);
}

static inline struct piano__thread *piano__self_thread(void)
{
    return (struct piano__thread *)__piano_self;
}

static inline bool piano__is_attached(const struct piano__thread *t)
{
    return t->state == PIANO_THREAD_RUNNING;
}

static inline struct piano__slot *piano__slots(struct piano__thread *t)
{
    return (struct piano__slot *)(t + 1);
}

static inline struct piano__entry *piano__entries(struct piano__thread *t, uint32_t fn_capacity)
{
    return (struct piano__entry *)(piano__slots(t) + fn_capacity);
}

/* Gives the calling thread a block; NULL (and a count of what was dropped) when there is none to have, the
 * run is over, or the thread is ending. */
struct piano__thread *piano__thread_attach(void);
/* Writes out and gives back the calling thread's block. */
void piano__thread_detach(void);

/* Who starts a thread, carried across pthread_create. */
struct piano__origin {
    uint32_t thread; /* number; 0 = nobody */
    int32_t fn;      /* -1 = not in an instrumented function */
};
struct piano__origin piano__thread_origin(void);
/* For a new thread, before its first call: remembered until it attaches. */
void piano__thread_adopt(struct piano__origin origin);

/* After fork, in the child: forget everything, so that the child gets a run of its own. */
void piano__thread_forget(void);

#endif
