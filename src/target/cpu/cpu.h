/* CPU samples taken inside the program: if the tool may not take them from outside, or if the
 * program requests them. */
#ifndef PIANO_TARGET_CPU_CPU_H
#define PIANO_TARGET_CPU_CPU_H

#include <stdint.h>

#include "target/cpu/threads.h"

enum { PIANO_CPU_HZ = 99, PIANO_CPU_MOST_HZ = 10000 };

/* Return 0 or a negative errno, as in include/piano.h. */
int piano__cpu_start(const struct piano__cpu_wish *wish);
int piano__cpu_stop(void);
/* Called when the program ends: counts the missed samples. */
void piano__cpu_end(void);
/* Call in a forked child: nothing is sampled there. */
void piano__cpu_forget(void);
/* The program wants SIGNAL, which is used for samples: sampling continues with another signal, or
 * ends. */
void piano__cpu_yield(int signal);
/* The program has an alternate signal stack that is too small for piano's handler: no alternate
 * stack is used from now on. */
void piano__cpu_stay_off_stacks(void);
/* Call before the calling thread executes another program: no signal for a sample may be pending
 * then. Call resume if the exec failed. */
void piano__cpu_pause(void);
void piano__cpu_resume(void);
/* Call after dlclose. */
void piano__cpu_unloaded(void);

#endif
