/* "Did you mean ...?": the names closest to a mistyped one. */
#ifndef PIANO_TOOL_UTIL_NEAREST_H
#define PIANO_TOOL_UTIL_NEAREST_H

#include <stddef.h>

/* How many insertions, deletions, replacements and swaps of neighbours turn A into B. Anything
 * above LIMIT, and names too long to be typed, give LIMIT + 1. */
size_t nearest_distance(const char *a, const char *b, size_t limit);

/* Up to MAX of NAMES, best first, that are near WANT: no more than a third of its letters off, or
 * the one contains the other when case is ignored. A name `a::b` is also compared by `b` alone.
 * Equal names are given once. OUT points into NAMES. Returns how many. */
size_t nearest_find(const char *want, const char *const *names, size_t count, const char **out,
                    size_t max);

/* The best of them, or NULL. */
const char *nearest_name(const char *want, const char *const *names, size_t count);

#endif
