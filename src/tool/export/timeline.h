/* The samples of a thread in order of time, as stretches that do not overlap. */
#ifndef PIANO_TOOL_EXPORT_TIMELINE_H
#define PIANO_TOOL_EXPORT_TIMELINE_H

#include "tool/profile/cpu.h"

enum timeline_kind { TIMELINE_CPU, TIMELINE_BLOCKED, TIMELINE_PREEMPTED, TIMELINE_KINDS };

struct timeline {
    const struct recording *rec;
    uint32_t pid;
    enum timeline_kind kind;
    size_t at, end;   /* samples of the thread */
    uint64_t last_ns; /* end of the last stretch */
};

struct timeline_span {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; at least 1 ns */
    uint32_t stack;
};

/* When the exported part of REC began. */
uint64_t timeline_origin(const struct recording *rec);
void timeline_start(struct timeline *t, const struct recording *rec, const struct cpu_part *thread,
                    enum timeline_kind kind);
/* The next stretch: a CPU sample covers the time that it stands for, before the moment at which it
 * was taken. Where that would overlap the stretch before, it is moved to the end of it, so that the
 * lengths add up to the CPU time of the thread. False at the end. */
bool timeline_next(struct timeline *t, struct timeline_span *span);

#endif
