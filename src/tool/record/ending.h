/* What only the parent process knows when a program has ended: how and when it ended, and the CPU
 * time that the kernel counted. */
#ifndef PIANO_TOOL_RECORD_ENDING_H
#define PIANO_TOOL_RECORD_ENDING_H

#include "tool/record/record.h"
#include "tool/record/recordings.h"
#include "tool/record/sampler.h"
#include "tool/record/watch.h"

/* Writes it into the header of ONE. CPU may be NULL. CPU_ERR: negative errno, why no CPU samples
 * were taken. */
void ending_write(const struct recordings *recordings, const struct recording *one,
                  const struct record *r, const struct sampler *cpu, const struct watch *w,
                  int cpu_err);
/* Writes what is known of the end of each further process into its recording, and into all of them
 * that they belong together. */
void ending_write_others(const struct recordings *recordings, const struct sampler *cpu);
/* Writes the end of the recording at PATH of a process that may still run. */
void ending_write_attached(const char *path, const struct sampler *cpu, const struct watch *w,
                           int cpu_err);

#endif
