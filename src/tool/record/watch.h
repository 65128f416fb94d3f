/* Waits for the recorded program to end. */
#ifndef PIANO_TOOL_RECORD_WATCH_H
#define PIANO_TOOL_RECORD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/record/sampler.h"
#include "tool/record/launch.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"

struct watch {
    int status;      /* from waitpid */
    bool timed_out;  /* the time limit expired and we ended it */
    bool is_cut;     /* a condition ended the recording before the program */
    uint64_t end_ns; /* CLOCK_MONOTONIC */
    /* CPU time of the process while it was recorded; 0: unknown. */
    uint64_t cpu_ns;
    /* The same until it ended, with the children that it waited for. */
    uint64_t family_ns;
    uint64_t family_user_ns; /* without the kernel's work */
};

/* Waits for the program of RECORDINGS, takes snapshots that are due or requested, and takes the
 * samples of CPU, which may be NULL. */
void watch_program(const struct record *r, struct recordings *recordings, struct sampler *cpu,
                   const struct launch_signals *signals, struct watch *w);
/* The same for a process that we did not start: until it ends, or a signal asks us to stop. SOCKET
 * leads to the library in it; -1: none. It becomes readable if the process becomes another program.
 * Sets `cpu_ns` to the CPU time that the process used meanwhile. Returns whether the process has
 * ended. */
bool watch_process(const struct record *r, struct recordings *recordings, int socket,
                   struct sampler *cpu, const struct launch_signals *signals, struct watch *w);

#endif
