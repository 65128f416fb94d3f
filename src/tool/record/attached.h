/* `piano record --pid`: records a process that runs already. */
#ifndef PIANO_TOOL_RECORD_ATTACHED_H
#define PIANO_TOOL_RECORD_ATTACHED_H

#include "tool/record/record.h"
#include "tool/record/sampler.h"

/* Returns EXIT_DONE, or EXIT_FAILED after printing an error. */
int attached_run(struct record *r);

/* From record.c, which uses them as well. The path of libpiano.so, malloc'd; NULL after printing an
 * error. */
char *record_find_library(void);
/* Prepares to sample IMAGE (NULL: a process that already runs), malloc'd. NULL after printing an
 * error when that fails. Sets `cpu_inside` if the program has to sample itself. */
struct sampler *record_prepare_cpu(struct record *r, const char *image);
void record_free_cpu(struct sampler *cpu);

#endif
