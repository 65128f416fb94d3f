/* Seeing the recorded program to its end. */
#ifndef PIANO_TOOL_RECORD_WATCH_H
#define PIANO_TOOL_RECORD_WATCH_H

#include <stdbool.h>

#include "tool/record/launch.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"

struct watch {
    int status;     /* as waitpid gave it */
    bool timed_out; /* the duration was over and we ended it */
};

/* Waits for the program of RECORDINGS, and takes the snapshots that are due or asked for. */
void watch_program(const struct record *r, struct recordings *recordings, const sigset_t *awaited,
                   struct watch *w);

#endif
