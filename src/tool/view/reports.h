/* The reports in a page: what `piano report --json` says, as far as it is shown in words. */
#ifndef PIANO_TOOL_VIEW_REPORTS_H
#define PIANO_TOOL_VIEW_REPORTS_H

#include "tool/load/run.h"
#include "tool/report/polls.h"

struct reports {
    struct buf text;     /* members of a JSON object */
    struct buf overview; /* items of an array */
};

/* Each returns 0 or negative errno. HEAP has the stacks of allocations named, and no others. */
int reports_run(struct reports *r, struct run *run);
int reports_heap(struct reports *r, struct heap *heap);
/* Names what has CPU samples. */
int reports_cpu(struct reports *r, struct heap *heap);
/* P has been gone through. */
int reports_polls(struct reports *r, struct polls *p);
/* What differs between two. */
int reports_diff(struct reports *r, struct run runs[2]);
int reports_heap_diff(struct reports *r, const struct heap heaps[2]);
/* The whole object, into B. */
void reports_put(struct buf *b, const struct reports *r);
void reports_release(struct reports *r);

#endif
