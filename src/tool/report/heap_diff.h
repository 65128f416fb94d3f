/* Comparison of two heap recordings, by function name. */
#ifndef PIANO_TOOL_REPORT_HEAP_DIFF_H
#define PIANO_TOOL_REPORT_HEAP_DIFF_H

#include "tool/report/heap.h"

enum heap_diff_figure { HEAP_DIFF_LIVE, HEAP_DIFF_PEAK, HEAP_DIFF_ALLOCATED, HEAP_DIFFS };
extern const char *const heap_diff_names[HEAP_DIFFS]; /* "live bytes", ... */

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
/* Change of the figure in percent; infinite if it was zero. */
double heap_diff_percent(const struct heap_change *c, enum heap_diff_figure figure);
/* Whether it grew by more than PERCENT, beyond both intervals, and is at least 1 % of the total
 * of side B. */
bool heap_diff_grew(const struct heap_diff *d, const struct heap_change *c,
                    enum heap_diff_figure figure, double percent);
/* Prints a notice if the two sides are different programs. */
void heap_diff_notices(const struct recording *a, const struct recording *b);

int heap_diff_print(FILE *out, const struct heap_diff *d, const struct report_options *o);
int heap_diff_json(FILE *out, const struct heap_diff *d, double fail_above);
/* Members "sites" and "heap_total", each followed by a comma. */
int heap_diff_put(struct buf *b, FILE *out, const struct heap_diff *d, double fail_above);

#endif
