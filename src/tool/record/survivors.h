/* Processes that the program started and that still run when it has ended, such as daemons. */
#ifndef PIANO_TOOL_RECORD_SURVIVORS_H
#define PIANO_TOOL_RECORD_SURVIVORS_H

#include <stddef.h>

#include "tool/record/recordings.h"
#include "tool/record/sampler.h"

struct survivors {
    size_t count;
    pid_t first; /* with the lowest id */
};

/* CPU may be NULL. */
struct survivors survivors_find(const struct recordings *recordings, const struct sampler *cpu);

#endif
