/* How many events a recording holds, where its program did not come to say. */
#ifndef PIANO_TOOL_RECORD_TALLY_H
#define PIANO_TOOL_RECORD_TALLY_H

#include "tool/record/recordings.h"

/* Counts the events of all whose programs are over without a proper end, and puts the number into their headers. */
void tally_events(const struct recordings *r);

#endif
