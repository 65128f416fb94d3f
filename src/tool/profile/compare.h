/* One matcher and one judge for all comparisons of two sides, A and B. */
#ifndef PIANO_TOOL_PROFILE_COMPARE_H
#define PIANO_TOOL_PROFILE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

typedef int compare_order(const void *a, const void *b);

/* Sorts COUNT parts of SIZE bytes by ORDER and calls ADD once for each group of parts that SAME
 * calls equal (0). Parts of a group are neighbours in ORDER. 0, or what ADD returned. */
int compare_groups(void *parts, size_t count, size_t size, compare_order *order,
                   compare_order *same, int (*add)(void *ctx, void *parts, size_t count),
                   void *ctx);

/* Compares texts that may be NULL; NULL is as "". */
int compare_texts(const char *a, const char *b);

/* Change from V[0] to V[1] in percent; infinite if it was zero. */
double compare_percent(const double v[2]);
/* Whether V grew by more than PERCENT and matters: WEIGHT is at least 1 % of ALL of side B. */
bool compare_grew(const double v[2], double percent, double weight, double all);
/* Whether two intervals {low, high} do not overlap. */
bool compare_apart(const double a[2], const double b[2]);

#endif
