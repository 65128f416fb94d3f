/* A thread as the runtime sees it: a block of the live image (common/live.h), and how to get and
 * return one. The inline probe knows only the first fields of the structs (common/probe.h). */
#ifndef PIANO_TARGET_SPAN_THREAD_H
#define PIANO_TARGET_SPAN_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/live.h"
#include "common/probe.h"
#include "target/sys/stack.h"

#define SAME_PLACE(a, b, field)                                                                    \
    _Static_assert(offsetof(struct a, field) == offsetof(struct b, field), "shared with the "      \
                                                                           "probe")
SAME_PLACE(piano__thread, __piano_thread, limit);
SAME_PLACE(piano__thread, __piano_thread, owner);
SAME_PLACE(piano__thread, __piano_thread, counted);
SAME_PLACE(piano__head, __piano_head, left);
SAME_PLACE(piano__head, __piano_head, each);
_Static_assert(sizeof(struct piano__head) == 16, "owners and kept guards are even");

/* Number of functions that each thread of a run has room for; set when the run starts. */
extern uint32_t piano__capacity;

static inline uint32_t piano__head_offset(uint32_t id)
{
    return (uint32_t)(sizeof(struct piano__thread) + id * sizeof(struct piano__head));
}

static inline uint32_t piano__head_id(uint32_t offset)
{
    return (uint32_t)((offset - sizeof(struct piano__thread)) / sizeof(struct piano__head));
}

static inline struct piano__thread *piano__self_thread(void)
{
    return (struct piano__thread *)__piano_self;
}

static inline bool piano__is_attached(const struct piano__thread *t)
{
    return t->state == PIANO_THREAD_RUNNING;
}

/* While the tables change, `busy` is the stack address of the function that changes them. Probes of
 * an interrupting signal handler then do nothing. A handler that jumps away leaves `busy` set;
 * repair.c detects that by the address. A single store sets it, so a holder always has an
 * address. */
static inline __attribute__((always_inline)) uintptr_t piano__hold(struct piano__thread *t)
{
    uintptr_t before = t->busy;
    if (!before)
        t->busy = piano__stack_pointer();
    __asm__ __volatile__("" ::: "memory");
    return before;
}

/* BEFORE is the result of `piano__hold`. Pairs with the acquire in take.c: a reader that sees the
 * thread idle sees its tables. */
static inline void piano__let_go(struct piano__thread *t, uintptr_t before)
{
    __atomic_store_n(&t->busy, before, __ATOMIC_RELEASE);
}

static inline struct piano__head *piano__heads(struct piano__thread *t)
{
    return (struct piano__head *)(t + 1);
}

static inline struct piano__slot *piano__slots(struct piano__thread *t)
{
    return (struct piano__slot *)(piano__heads(t) + piano__capacity);
}

static inline struct piano__entry *piano__entries(struct piano__thread *t)
{
    return (struct piano__entry *)(piano__slots(t) + piano__capacity);
}

static inline struct piano__head *piano__head_of(struct piano__thread *t,
                                                 const struct piano__slot *slot)
{
    return &piano__heads(t)[slot - piano__slots(t)];
}

/* Returns the slot that allocations are charged to now. NULL if there is none or if it is in
 * another block: a call that began before a fork or on another thread restores an owner of that
 * block. */
static inline struct piano__slot *piano__owner(struct piano__thread *t)
{
    uint64_t offset = t->owner - (uintptr_t)piano__heads(t);
    uint64_t id = offset / sizeof(struct piano__head);
    return id < piano__capacity ? &piano__slots(t)[id] : NULL;
}

/* xorshift64 */
static inline uint64_t piano__thread_random(struct piano__thread *t)
{
    uint64_t x = t->random ? t->random : 0x9e3779b97f4a7c15u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return t->random = x;
}

/* Gives the calling thread a block. Returns NULL and counts a drop if there is no block, the run is
 * over, or the thread is ending. */
struct piano__thread *piano__thread_attach(void);
/* Writes out and returns the calling thread's block. */
void piano__thread_detach(void);

/* Thread and function that start a thread, passed through pthread_create. */
struct piano__origin {
    uint32_t thread; /* number; 0 = unknown */
    int32_t fn;      /* -1 = not in an instrumented function */
};
struct piano__origin piano__thread_origin(void);
/* Called on a new thread before its first call. Keeps ORIGIN until the thread attaches. */
void piano__thread_adopt(struct piano__origin origin);

/* After fork, in the child: resets everything so that the child gets its own run. */
void piano__thread_forget(void);

#endif
