/* The Trace Event Format: what the files chrome*.c share. An event is a JSON object with a phase
 * `ph`, a category `cat`, a time `ts` in microseconds, `pid` and `tid`. */
#ifndef PIANO_TOOL_EXPORT_TRACE_H
#define PIANO_TOOL_EXPORT_TRACE_H

#include "tool/export/export.h"
#include "tool/export/nodes.h"

/* Slices of a thread must lie in each other or apart. What may overlap its polls is in processes of
 * its own, whose numbers are greater than any of the system. */
enum { TRACE_OFF_PIDS = 1000000000, TRACE_FRAME_PIDS = 2000000000 };

struct trace {
    FILE *out;
    struct buf b;
    const struct export_source *s;
    const struct recording *rec; /* NULL: a run alone */
    struct polls *p;             /* the same */
    uint64_t start_ns;           /* CLOCK_MONOTONIC at time 0 of the trace */
    uint64_t flows;
    uint32_t profiles; /* of threads with CPU samples */
    struct export_nodes nodes;
    size_t referred; /* the first of the nodes, which events refer to by `sf` */
    bool any;        /* an event was written */
    int err;
};

/* Nanoseconds from the start of the trace to AT_NS. */
uint64_t trace_since(const struct trace *w, uint64_t at_ns);
/* Writes a member in microseconds, with nanosecond precision. */
void trace_put_time(struct trace *w, const char *key, uint64_t ns);
/* Writes the start of an event, up to its arguments, and ends it. */
void trace_begin(struct trace *w, const char *phase, const char *category, uint64_t pid,
                 uint64_t tid, uint64_t at_ns);
void trace_put_name(struct trace *w, const char *name);
void trace_end(struct trace *w);
void trace_keep_error(struct trace *w, int err);
/* An event of phase M: WHAT is "process_name" or "thread_name". */
void trace_put_metadata(struct trace *w, const char *what, uint64_t pid, uint64_t tid,
                        const char *name);
/* An event of phase C. */
void trace_put_counter(struct trace *w, const char *category, uint64_t pid, uint64_t tid,
                       uint64_t at_ns, const char *name, const char *series, int64_t value);

/* ---- chrome_samples.c ---- */

/* CPU samples, times off the CPU, and the names of their threads. */
void trace_put_samples(struct trace *w);
/* The table `stackFrames`, of the stacks that events refer to. */
void trace_put_stacks(struct trace *w);

/* ---- chrome_run.c ---- */

/* The frames of the run. */
void trace_put_run(struct trace *w);

#endif
