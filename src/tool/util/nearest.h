/* "Did you mean ...?": the names closest to a mistyped one. */
#ifndef PIANO_TOOL_UTIL_NEAREST_H
#define PIANO_TOOL_UTIL_NEAREST_H

#include <stddef.h>

/* Number of insertions, deletions, replacements and swaps of adjacent letters that turn A into B.
 * Returns LIMIT + 1 for any larger distance and for names too long to compare. */
size_t nearest_distance(const char *a, const char *b, size_t limit);

/* Finds up to MAX of NAMES that are near WANT, best first. A name is near if at most a third of the
 * letters of WANT (at least one) differ, or if one contains the other, ignoring case. A name `a::b`
 * is also compared by `b` alone. Duplicates are returned once. OUT points into NAMES. Returns the
 * number found. */
size_t nearest_find(const char *want, const char *const *names, size_t count, const char **out,
                    size_t max);

/* The best match, or NULL. */
const char *nearest_name(const char *want, const char *const *names, size_t count);

#endif
