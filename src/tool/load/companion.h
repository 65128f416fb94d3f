/* A run of an instrumented program and the recording of the same process. `piano record` of a program that was built with
 * `piano build` leaves both: the program's functions and frames in one file, its CPU samples, waits, events and memory in
 * the other. They have one clock, so what was recorded can be told frame by frame. */
#ifndef PIANO_TOOL_LOAD_COMPANION_H
#define PIANO_TOOL_LOAD_COMPANION_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/load/run.h"

/* The recording that belongs to the run at PATH, or the run that belongs to the recording there: of the same process, at the
 * same time, in the same directory or among the runs of the project. Malloc'd; NULL when there is none. */
char *companion_find(const char *path);

/* A stretch of a thread's time, CLOCK_MONOTONIC, without its END. */
struct companion_span {
    uint32_t tid;
    uint64_t begin_ns, end_ns;
};

/* When FRAME was, and on which thread. False: the file does not tell its clock, or not the frame's begin or thread. */
bool companion_frame(const struct run *run, const struct run_frame *frame,
                     struct companion_span *out);

#endif
