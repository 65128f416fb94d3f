/* Counts the events and missing samples of a recording whose program did not end properly. */
#ifndef PIANO_TOOL_RECORD_TALLY_H
#define PIANO_TOOL_RECORD_TALLY_H

#include "tool/record/recordings.h"

/* Counts the events of all recordings whose programs ended without a proper end, and writes the
 * number into their headers. */
void tally_events(const struct recordings *r);
/* The same for the recording at PATH, whose program has ended. */
void tally_one(const char *path);
/* The program sampled itself and used CPU_NS in total. CPU time that its samples do not account for
 * counts as lost samples. */
void tally_samples(const struct recordings *r, uint64_t cpu_ns);

#endif
