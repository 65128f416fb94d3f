/* A run of an instrumented program and the recording of the same process. `piano record` of a
 * program built with `piano build` writes both. The run has the program's functions and frames; the
 * recording has its CPU samples, waits, events and memory. Both have the same clock, so the
 * recorded data can be assigned to frames. */
#ifndef PIANO_TOOL_LOAD_COMPANION_H
#define PIANO_TOOL_LOAD_COMPANION_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/load/run.h"

/* Returns the recording that belongs to the run at PATH, or the run that belongs to the recording
 * there. It is of the same process and time, in the same directory or in the project's runs.
 * Malloc'd; NULL if there is none. */
char *companion_find(const char *path);

/* Interval of a thread's time, CLOCK_MONOTONIC; END is exclusive. */
struct companion_span {
    uint32_t tid;
    uint64_t begin_ns, end_ns;
};

/* Returns when and on which thread FRAME was. False if the file has no clock pairs, or the frame
 * has no begin or thread. */
bool companion_frame(const struct run *run, const struct run_frame *frame,
                     struct companion_span *out);

#endif
