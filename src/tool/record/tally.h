/* How many events a recording holds, and how many samples it misses, where its program did not come to say. */
#ifndef PIANO_TOOL_RECORD_TALLY_H
#define PIANO_TOOL_RECORD_TALLY_H

#include "tool/record/recordings.h"

/* Counts the events of all whose programs are over without a proper end, and puts the number into their headers. */
void tally_events(const struct recordings *r);
/* The program, which has sampled itself, took CPU_NS in all: what its samples do not stand for was lost. */
void tally_samples(const struct recordings *r, uint64_t cpu_ns);

#endif
