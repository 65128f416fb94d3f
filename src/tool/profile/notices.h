/* Notices about a run or a recording: missing data, drops during recording, and the accuracy of the figures.
 * Each is one line on stderr, printed only if it applies, and once for a profile. */
#ifndef PIANO_TOOL_PROFILE_NOTICES_H
#define PIANO_TOOL_PROFILE_NOTICES_H

#include "tool/load/run.h"
#include "tool/profile/cpu.h"
#include "tool/profile/polls.h"
#include "tool/profile/profile.h"

/* PER_FRAME: figures of single frames, or percentiles over them, are shown. */
void run_notices(const struct run *run, bool per_frame);
void heap_notices(struct profile *p);
/* Says that the heap figures are not known, if they were asked for and an allocator is hidden. */
void heap_notice_hidden(const struct profile *p);
void cpu_notices(const struct cpu *c);
void polls_notices(const struct polls *p);
/* The part of `heap_notices` about missing data, from the header. */
void heap_notice_losses(const struct profile *p);
/* About CPU samples that are missing, from the header. */
void profile_notice_samples(struct profile *p);
/* About the file itself, and about names that could not be resolved. */
void profile_notice_reading(struct profile *p);
void profile_notice_symbols(struct profile *p);

#endif
