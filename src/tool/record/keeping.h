/* The last step of `piano record`: writes the names of functions into its recordings. */
#ifndef PIANO_TOOL_RECORD_KEEPING_H
#define PIANO_TOOL_RECORD_KEEPING_H

#include "tool/record/recordings.h"

/* Writes names into the recordings of LIST whose program has ended. Reports failures. */
void keeping_names(const struct recording *list, size_t count);

#endif
