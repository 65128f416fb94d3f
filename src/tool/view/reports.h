/* The reports in a page: the output of `piano report --json`, as far as the page shows it in
 * words. */
#ifndef PIANO_TOOL_VIEW_REPORTS_H
#define PIANO_TOOL_VIEW_REPORTS_H

#include "tool/load/run.h"
#include "tool/report/polls.h"

struct reports {
    struct buf text;     /* members of a JSON object */
    struct buf overview; /* items of an array */
};

/* Each returns 0 or negative errno. */
int reports_run(struct reports *r, struct run *run);
int reports_heap(struct reports *r, struct profile *heap);
/* Names the stacks of CPU samples. */
int reports_cpu(struct reports *r, struct profile *p);
/* Call this after `polls_go`. */
int reports_polls(struct reports *r, struct polls *p);
/* The difference between two. */
int reports_diff(struct reports *r, struct run runs[2]);
int reports_heap_diff(struct reports *r, const struct profile heaps[2]);
/* Writes the whole object to B. */
void reports_put(struct buf *b, const struct reports *r);
void reports_release(struct reports *r);

#endif
