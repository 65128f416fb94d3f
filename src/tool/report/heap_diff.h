/* Comparison of two heap recordings, by the names of functions. */
#ifndef PIANO_TOOL_REPORT_HEAP_DIFF_H
#define PIANO_TOOL_REPORT_HEAP_DIFF_H

#include "tool/report/heap.h"

/* One site on both sides, [0] and [1]. Lines and addresses move with every build; names stay. */
struct heap_change {
    const char *function, *caller; /* caller may be NULL */
    const char *file;              /* or NULL */
    bool mmap;
    bool present[2];
    struct recording_sum sum[2];
    double impact;     /* the greater of its shares in what is live and in what was allocated */
    bool live_differs; /* the 95 % intervals do not touch */
    bool allocated_differs;
};

struct heap_diff {
    const struct heap *sides; /* two */
    const char *labels[2];
    struct heap_change *rows; /* greatest impact first */
    size_t count;
    struct heap_change total;
};

/* 0 or -ENOMEM. SIDES must outlive DIFF. */
int heap_diff_make(struct heap_diff *d, const struct heap sides[2], const char *const labels[2]);
void heap_diff_release(struct heap_diff *d);
/* Change of allocated bytes in percent; infinite from nothing. */
double heap_diff_percent(const struct heap_change *c);
/* Did the allocated bytes grow by more than PERCENT, beyond both intervals, and do they matter (1 % of all of
 * side B)? */
bool heap_diff_grew(const struct heap_diff *d, const struct heap_change *c, double percent);

int heap_diff_print(FILE *out, const struct heap_diff *d, const struct report_options *o);
int heap_diff_json(FILE *out, const struct heap_diff *d, double fail_above);

#endif
