/* A recording made by the tool, of a program that makes none itself. */
#ifndef PIANO_TOOL_RECORD_CREATE_H
#define PIANO_TOOL_RECORD_CREATE_H

#include <stdint.h>
#include <sys/types.h>

/* Makes PATH, of process PID, begun at START_NS (CLOCK_MONOTONIC), to hold MAX_BYTES at most (0: the usual). 0 or negative
 * errno: -EEXIST when it is there. */
int create_recording(const char *path, pid_t pid, uint64_t start_ns, uint64_t max_bytes);

#endif
