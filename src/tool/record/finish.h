/* The end of a `piano record`: writes the exit status into the recording and prints the summary. */
#ifndef PIANO_TOOL_RECORD_FINISH_H
#define PIANO_TOOL_RECORD_FINISH_H

#include "tool/record/sampler.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"
#include "tool/record/watch.h"

/* CPU may be NULL. CPU_ERR: negative errno, why no CPU samples were taken. */
void finish(const struct record *r, struct recordings *recordings, struct sampler *cpu,
            const struct watch *w, int cpu_err);
/* The same for a process that was not started here. */
void finish_attached(const struct record *r, struct recordings *recordings, struct sampler *cpu,
                     const struct watch *w);
/* Prints WORDS (static) after the number of CPU samples of each recording. */
void finish_limits(const char *words);

#endif
