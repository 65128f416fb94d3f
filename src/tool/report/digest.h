/* The digest that a page contains: the output of `piano report --json`, cut to a readable size, and
 * the main results in words. */
#ifndef PIANO_TOOL_REPORT_DIGEST_H
#define PIANO_TOOL_REPORT_DIGEST_H

#include "tool/load/run.h"
#include "tool/report/polls.h"
#include "tool/util/json_writer.h"

struct digest {
    struct json_writer reports;  /* an object, which is not closed */
    struct json_writer overview; /* an array, which is not closed */
};

/* Each returns 0 or negative errno. */
int digest_run(struct digest *r, struct run *run);
int digest_heap(struct digest *r, struct profile *heap);
/* Names the stacks of CPU samples. */
int digest_cpu(struct digest *r, struct profile *p);
/* Call this after `polls_go`. */
int digest_polls(struct digest *r, struct polls *p);
/* The difference between two. */
int digest_diff(struct digest *r, struct run runs[2]);
int digest_heap_diff(struct digest *r, const struct profile heaps[2]);
/* Appends the whole object to B, once. */
void digest_put(struct buf *b, struct digest *r);
void digest_release(struct digest *r);

#endif
