/* Tests whether a block may be a sampled one. Every free asks this, so it is one load: a count of
 * sampled blocks per kilobyte of memory, in 2^17 counters. Addresses 128 MB apart share a counter,
 * which only costs an extra look-up. The working set of a program needs some thousand counters,
 * which stay in the L1 cache.
 *
 * There are no false negatives: the counter is raised before the program has the address, and
 * lowered after the block's record is removed. A saturated counter stays saturated. */
#ifndef PIANO_TARGET_HEAP_FILTER_H
#define PIANO_TARGET_HEAP_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum { PIANO_FILTER_SHIFT = 10, PIANO_FILTER_PLACES = 1 << 17 };

extern uint8_t piano__filter[PIANO_FILTER_PLACES] __attribute__((visibility("hidden")));

static inline unsigned piano__filter_place(uintptr_t address)
{
    return (unsigned)(address >> PIANO_FILTER_SHIFT) % PIANO_FILTER_PLACES;
}

static inline bool piano__filter_may_hold(const void *p)
{
    /* Relaxed: the program orders a free after the allocation, and with it after
     * piano__filter_add(). */
    return __atomic_load_n(&piano__filter[piano__filter_place((uintptr_t)p)], __ATOMIC_RELAXED);
}

/* The same, but always true if EVERY is all ones: then it tests the last counter, which is
 * saturated (`piano__filter_begin`). */
static inline bool piano__filter_may_hold_or(const void *p, uintptr_t every)
{
    unsigned place = piano__filter_place((uintptr_t)p | every);
    return __atomic_load_n(&piano__filter[place], __ATOMIC_RELAXED);
}

/* Call this before any of the others. */
void piano__filter_begin(void);
/* From now on, all blocks that share a counter with P count as sampled. */
void piano__filter_fill(const void *p);
void piano__filter_add(const void *p);
/* Forgets all blocks that were added. No thread may be adding or removing one. */
void piano__filter_forget(void);
void piano__filter_remove(const void *p);

#endif
