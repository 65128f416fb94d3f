/* Address ranges, each with a number, and a search by address. */
#ifndef PIANO_TOOL_SYMBOL_RANGES_H
#define PIANO_TOOL_SYMBOL_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t low, high; /* high is exclusive */
    uint64_t reach;     /* highest `high` of this and all earlier ranges */
    uint32_t value;
};

struct ranges {
    struct range *list;
    size_t count, cap;
    bool failed; /* out of memory */
};

/* Adds LOW..HIGH. Ignores empty ranges. */
void ranges_add(struct ranges *r, uint64_t low, uint64_t high, uint32_t value);
/* Call this after the last `ranges_add` and before the first `ranges_find`. */
void ranges_sort(struct ranges *r);
/* The range around ADDR with the highest start (of equal starts, the shortest), or NULL. */
const struct range *ranges_find(const struct ranges *r, uint64_t addr);
void ranges_release(struct ranges *r);

#endif
