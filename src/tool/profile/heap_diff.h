/* Comparison of two heap recordings, by function name. */
#ifndef PIANO_TOOL_PROFILE_HEAP_DIFF_H
#define PIANO_TOOL_PROFILE_HEAP_DIFF_H

#include "tool/profile/profile.h"

enum heap_diff_figure { HEAP_DIFF_LIVE, HEAP_DIFF_PEAK, HEAP_DIFF_ALLOCATED, HEAP_DIFFS };
extern const char *const heap_diff_names[HEAP_DIFFS]; /* "live bytes", ... */

typedef void heap_interval(const struct recording *rec, const struct recording_sum *sum,
                           double *low, double *high);
extern heap_interval *const heap_diff_intervals[HEAP_DIFFS];

/* One site on both sides, [0] and [1]. Lines and addresses change with every build; names do
 * not. */
struct heap_change {
    const char *function, *caller; /* caller may be NULL */
    const char *file;              /* or NULL */
    bool mmap;
    bool present[2];
    struct recording_sum sum[2];
    double impact; /* its largest share of live bytes, allocated bytes, or bytes live at the peak */
    bool differs[HEAP_DIFFS]; /* the 95 % intervals do not overlap */
};

struct heap_diff {
    const struct profile *sides; /* two */
    const char *labels[2];
    struct heap_change *rows; /* largest impact first */
    size_t count;
    struct heap_change total;
};

/* 0 or -ENOMEM. SIDES must outlive DIFF. */
int heap_diff_make(struct heap_diff *d, const struct profile sides[2], const char *const labels[2]);
void heap_diff_release(struct heap_diff *d);
/* The figure on both sides. */
void heap_diff_values(const struct heap_change *c, enum heap_diff_figure figure, double v[2]);
/* Whether it grew by more than PERCENT, beyond both intervals, and is at least 1 % of the total
 * of side B. */
bool heap_diff_grew(const struct heap_diff *d, const struct heap_change *c,
                    enum heap_diff_figure figure, double percent);
/* Prints a notice if the two sides are different programs. */
void heap_diff_notices(const struct recording *a, const struct recording *b);

#endif
