/* The final names of the recordings of one `piano record`. */
#ifndef PIANO_TOOL_RECORD_NAMES_H
#define PIANO_TOOL_RECORD_NAMES_H

#include "tool/record/recordings.h"

/* Sorts the list: the program first, then its children, with the images of each process in order.
 * The newest image of each process gets the requested name. Older ones are removed if they are
 * empty. */
void names_settle(struct recordings *r);
/* Removes empty recordings of other processes that have ended. Returns their number. */
size_t names_drop_empty(struct recordings *r);

#endif
