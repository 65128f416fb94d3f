/* CPU samples on their way into the recording: the sample, its stack, the modules that is in, the thread. Everything that is
 * called in a handler is lock-free, and waits for nobody. */
#ifndef PIANO_TARGET_CPU_SAMPLES_H
#define PIANO_TARGET_CPU_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/cpu/threads.h"

/* Room for what is kept beside the recording; false when there is no memory. What the first samples ask of the kernel is asked
 * now. */
bool piano__cpu_samples_init(void);
/* In a forked child. */
void piano__cpu_samples_forget(void);
/* Libraries may have been unloaded: addresses may mean something else from now on. Not in a handler. */
void piano__cpu_samples_unloaded(void);
/* The walk of T, which stands for NS of its CPU time. In the handler of T. */
void piano__cpu_samples_put(struct piano__cpu_thread *t, uint64_t ns);

#endif
