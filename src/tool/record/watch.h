/* Seeing the recorded program to its end. */
#ifndef PIANO_TOOL_RECORD_WATCH_H
#define PIANO_TOOL_RECORD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/record/cpu.h"
#include "tool/record/launch.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"

struct watch {
    int status;      /* as waitpid gave it */
    bool timed_out;  /* the duration was over and we ended it */
    uint64_t cpu_ns; /* that it took; 0: not known */
};

/* Waits for the program of RECORDINGS, takes the snapshots that are due or asked for, and the samples of CPU, which
 * may be NULL. */
void watch_program(const struct record *r, struct recordings *recordings, struct cpu *cpu,
                   const struct launch_signals *signals, struct watch *w);
/* The same for a process that is none of ours: until it ends, or somebody asks us to. */
void watch_process(const struct record *r, struct cpu *cpu, const struct launch_signals *signals);

#endif
