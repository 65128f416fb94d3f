/* Could this block be a sampled one? Asked by every free, so it is one load: a count of sampled blocks per kilobyte of
 * memory, for 2^17 of them at a time (places 128 MB apart share a count, which costs a look-up and no more). What
 * a program works on has some thousand counts, and those stay in the nearest cache.
 *
 * Never a false no: the count is raised before the program has the address, and lowered after the block's record is
 * gone. A count that reaches its end stays there. */
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
    return __atomic_load_n(&piano__filter[piano__filter_place((uintptr_t)p)], __ATOMIC_RELAXED);
}

/* The same, and always yes when EVERY is all ones: that leads to the last place, which is full (`piano__filter_begin`). */
static inline bool piano__filter_may_hold_or(const void *p, uintptr_t every)
{
    unsigned place = piano__filter_place((uintptr_t)p | every);
    return __atomic_load_n(&piano__filter[place], __ATOMIC_RELAXED);
}

/* Before any of the others. */
void piano__filter_begin(void);
/* From now on and for ever, what lies where P does counts as sampled. */
void piano__filter_fill(const void *p);
void piano__filter_add(const void *p);
void piano__filter_remove(const void *p);

#endif
