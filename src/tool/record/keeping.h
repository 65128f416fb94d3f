/* The last thing `piano record` does: the names of functions go into its recordings. */
#ifndef PIANO_TOOL_RECORD_KEEPING_H
#define PIANO_TOOL_RECORD_KEEPING_H

#include "tool/record/recordings.h"

/* Into those of LIST whose program has ended; says so where that could not be done. */
void keeping_names(const struct recording *list, size_t count);

#endif
