/* The stack of open timed calls: guards, which name an entry of it, entries that a longjmp skipped,
 * and the lock of a thread's tables. Part of span.c, which alone includes it. */
#ifndef PIANO_TARGET_SPAN_ENTRY_H
#define PIANO_TARGET_SPAN_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "target/span/span.h"
#include "target/span/thread.h"
#include "target/sys/stack.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define compiler_barrier() __asm__ __volatile__("" ::: "memory")

enum { INDEX_BITS = 12, SAMPLE_ROOM = 64 };
_Static_assert(PIANO_MAX_DEPTH <= 1 << INDEX_BITS, "an index fits its bits of a guard");

/* A guard of a timed call:  | seq | index, 12 bits | 1 |  */
static void *make_guard(uint64_t seq, uint32_t index)
{
    return (void *)(uintptr_t)((seq << (INDEX_BITS + 1)) | (uint64_t)index << 1 | 1);
}

static uint32_t guard_index(uint64_t bits)
{
    return (uint32_t)(bits >> 1) & ((1u << INDEX_BITS) - 1);
}

static bool is_guard_of(const struct piano__entry *e, uint32_t index, uint64_t bits)
{
    return (uintptr_t)make_guard(e->seq, index) == bits;
}

/* While the thread's tables change, probes in signal handlers must not use them. `limit` = 0 sends
 * them to the slow path; `busy` makes them return there. */
static inline __attribute__((always_inline)) void lock(struct piano__thread *t)
{
    t->busy = piano__stack_pointer();
    t->limit = 0;
    compiler_barrier();
}

/* Calls made by a sampled call are timed, so they must take the slow path. */
static bool is_in_sample(struct piano__thread *t)
{
    return t->depth > 0 && piano__entries(t)[t->depth - 1].flags & PIANO_ENTRY_SAMPLED;
}

static void unlock_in(struct piano__thread *t, bool in_sample)
{
    compiler_barrier();
    t->busy = 0;
    t->limit = unlikely(in_sample) ? 0 : t->real_limit;
}

static void unlock(struct piano__thread *t)
{
    unlock_in(t, is_in_sample(t));
}

/* Called on every slow-path entry and before the sums are read. A half of `counted` overflows only
 * if hundreds of functions each count 8000 calls, the most a function counts in a row, before any
 * call takes the slow path. */
static void add_counted(struct piano__thread *t)
{
    uint64_t counted = t->counted;
    t->attributed += piano__each_self(counted);
    t->overhead += piano__each_cost(counted);
    t->counted -= counted;
}

/* Where a probe was called from. */
struct caller {
    uintptr_t stack;
    uintptr_t site;
};

/* Entered again from the same site at the same stack address: E can no longer be running. */
static bool is_dead(const struct piano__entry *e, struct caller from)
{
    return e->stack < from.stack || (e->stack == from.stack && e->site == from.site);
}

/* Lets the inline path count recursive calls inside a sampled call; there may be thousands. Only a
 * few at a time: a longjmp may skip the sample's end, and only the slow path detects that. */
static void make_room(struct piano__head *head)
{
    head->left += SAMPLE_ROOM; /* first: a reader must see nothing pending, not too much */
    compiler_barrier();
    head->given += SAMPLE_ROOM;
}

#endif
