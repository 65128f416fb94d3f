/* Writes CPU samples into the recording: the sample, its stack, the modules of the stack, the
 * thread. Everything that a handler calls is lock-free and never waits. */
#ifndef PIANO_TARGET_CPU_SAMPLES_H
#define PIANO_TARGET_CPU_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/cpu/threads.h"

/* Allocates the tables outside of the recording. Returns false if there is no memory. Makes the
 * system calls of the first samples now. */
bool piano__cpu_samples_init(void);
/* Call in a forked child. */
void piano__cpu_samples_forget(void);
/* Libraries may have been unloaded: addresses may have another meaning from now on. Not in a
 * handler. */
void piano__cpu_samples_unloaded(void);
/* Writes the walk of T, which represents NS of its CPU time. Call it in the handler of T. */
void piano__cpu_samples_put(struct piano__cpu_thread *t, uint64_t ns);

#endif
