/* A recording that the tool creates, for a program that does not create one itself. */
#ifndef PIANO_TOOL_RECORD_CREATE_H
#define PIANO_TOOL_RECORD_CREATE_H

#include <stdint.h>
#include <sys/types.h>

/* Creates the recording PATH of process PID, started at START_NS (CLOCK_MONOTONIC), with at most
 * MAX_BYTES (0: the default). Returns 0 or negative errno: -EEXIST if the file exists. */
int create_recording(const char *path, pid_t pid, uint64_t start_ns, uint64_t max_bytes,
                     uint32_t flags);

#endif
