/* The kinds of perf events that are opened. For perf.c. */
#ifndef PIANO_TOOL_RECORD_PERF_ATTR_H
#define PIANO_TOOL_RECORD_PERF_ATTR_H

#include <stdint.h>
#include <sys/types.h>

#include "tool/record/perf.h"

/* Samples of whatever runs on a CPU. */
void perf_attr_cpu(struct perf_event_attr *a, const struct perf_wish *w);
/* What a thread does, with samples of it if they are not taken by CPU. */
void perf_attr_thread(struct perf_event_attr *a, const struct perf_wish *w);
/* Whenever a thread leaves its CPU: STACK bytes of its stack. */
void perf_attr_switches(struct perf_event_attr *a, const struct perf_wish *w, uint32_t stack);

/* Opens an event of thread TID (-1: all) on the CPU (-1: all). Returns the descriptor or negative
 * errno. */
int perf_attr_open(struct perf_event_attr *attr, pid_t tid, int cpu);

#endif
