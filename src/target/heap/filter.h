/* Could this block be a sampled one? Asked by every free, so it is one load: a count of sampled blocks per page of
 * memory, for 2^16 pages at a time (pages 256 MB apart share a count, which costs a look-up and no more). The
 * heap a program works on is some thousand pages, so the counts it needs stay in the nearest cache.
 *
 * Never a false no: the count is raised before the program has the address, and lowered after the block's record is
 * gone. A count that reaches its end stays there. */
#ifndef PIANO_TARGET_HEAP_FILTER_H
#define PIANO_TARGET_HEAP_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum { PIANO_FILTER_PAGES = 1 << 16 };

extern uint8_t piano__filter[PIANO_FILTER_PAGES] __attribute__((visibility("hidden")));

static inline unsigned piano__filter_place(uintptr_t address)
{
    return (unsigned)(address >> 12 ^ address >> 28) % PIANO_FILTER_PAGES;
}

static inline bool piano__filter_may_hold(const void *p)
{
    return __atomic_load_n(&piano__filter[piano__filter_place((uintptr_t)p)], __ATOMIC_RELAXED);
}

void piano__filter_add(const void *p);
void piano__filter_remove(const void *p);

#endif
