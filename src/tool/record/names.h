/* The names that the recordings of one `piano record` keep. */
#ifndef PIANO_TOOL_RECORD_NAMES_H
#define PIANO_TOOL_RECORD_NAMES_H

#include "tool/record/recordings.h"

/* Sorts the list: the program first, then its children, each process with its images in order. The newest image of each
 * process gets the name that was asked for; older ones are removed when nothing was sampled in them. */
void names_settle(struct recordings *r);
/* Removes those of other processes that have ended and in which nothing was sampled. How many these were. */
size_t names_drop_empty(struct recordings *r);

#endif
