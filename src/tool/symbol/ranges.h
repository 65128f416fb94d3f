/* Ranges of addresses, each with a number: which one holds an address? */
#ifndef PIANO_TOOL_SYMBOL_RANGES_H
#define PIANO_TOOL_SYMBOL_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t low, high; /* high is the first address behind it */
    uint64_t reach;     /* greatest `high` of this range and those before it */
    uint32_t value;
};

struct ranges {
    struct range *list;
    size_t count, cap;
    bool failed; /* out of memory */
};

/* Adds LOW..HIGH; what is empty is left out. */
void ranges_add(struct ranges *r, uint64_t low, uint64_t high, uint32_t value);
/* To be called after the last one was added. */
void ranges_sort(struct ranges *r);
/* The range around ADDR that begins last (of those the shortest), or NULL. */
const struct range *ranges_find(const struct ranges *r, uint64_t addr);
void ranges_release(struct ranges *r);

#endif
