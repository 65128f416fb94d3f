/* The end of a `piano record`: the exit status into the recording, and what the user is told. */
#ifndef PIANO_TOOL_RECORD_FINISH_H
#define PIANO_TOOL_RECORD_FINISH_H

#include "tool/record/cpu.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"
#include "tool/record/watch.h"

/* CPU may be NULL. */
void finish(const struct record *r, struct recordings *recordings, struct cpu *cpu,
            const struct watch *w);
/* Of a process that was not started here. */
void finish_attached(const struct record *r, struct cpu *cpu);
/* WORDS, static, stand behind the number of CPU samples in what is said of each recording. */
void finish_limits(const char *words);

#endif
