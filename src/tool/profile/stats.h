/* Statistics for `piano diff`. */
#ifndef PIANO_TOOL_PROFILE_STATS_H
#define PIANO_TOOL_PROFILE_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/load/samples.h"

enum verdict { VERDICT_UNKNOWN = -1, VERDICT_NOISE = 0, VERDICT_REAL = 1 };

double stats_mean(const double *v, size_t n);

/* A two-sided t test at 95 % on repeated runs; unknown with fewer than two per side. */
enum verdict stats_t_test(const double *a, size_t na, const double *b, size_t nb);

/* Mann-Whitney test on the values of single frames of one run per side. Real if p < 1 % and one
 * side's frame is larger in at least 64 % of pairs; unknown below 20 frames per side. *B_GREATER
 * says which side is larger. Sorts the bags. */
enum verdict stats_mann_whitney(struct samples *a, struct samples *b, bool *b_greater);

#endif
