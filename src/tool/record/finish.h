/* The end of a `piano record`: the exit status into the recording, and what the user is told. */
#ifndef PIANO_TOOL_RECORD_FINISH_H
#define PIANO_TOOL_RECORD_FINISH_H

#include "tool/record/record.h"
#include "tool/record/recordings.h"

/* STATUS as waitpid gave it. */
void finish(const struct record *r, struct recordings *recordings, int status);

#endif
