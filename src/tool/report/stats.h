/* The statistics behind `piano diff`. */
#ifndef PIANO_TOOL_REPORT_STATS_H
#define PIANO_TOOL_REPORT_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/load/samples.h"

enum verdict { VERDICT_UNKNOWN = -1, VERDICT_NOISE = 0, VERDICT_REAL = 1 };

double stats_mean(const double *v, size_t n);

/* A t test at 95 %, two-sided, on repeated runs; unknown with fewer than two a side. */
enum verdict stats_t_test(const double *a, size_t na, const double *b, size_t nb);

/* Mann-Whitney test on the values of single frames of one run a side: real when p < 1 % and one
 * side's frame beats the other's in at least 64 % of pairs; unknown below 20 frames a side.
 * *B_GREATER says which one. Sorts the bags. */
enum verdict stats_mann_whitney(struct samples *a, struct samples *b, bool *b_greater);

#endif
