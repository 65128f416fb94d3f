/* CPU samples taken inside the program, where nobody outside may take them or the program itself wants them. */
#ifndef PIANO_TARGET_CPU_CPU_H
#define PIANO_TARGET_CPU_CPU_H

#include <stdint.h>

#include "target/cpu/threads.h"

enum { PIANO_CPU_HZ = 99, PIANO_CPU_MOST_HZ = 10000 };

/* 0 or negative errno, as in include/piano.h. */
int piano__cpu_start(const struct piano__cpu_wish *wish);
int piano__cpu_stop(void);
/* The program ends: what was missed is counted. */
void piano__cpu_end(void);
/* In a forked child: nothing is sampled. */
void piano__cpu_forget(void);
/* The program wants SIGNAL for itself, which is in use for samples: they go on with another, or end. */
void piano__cpu_yield(int signal);
/* The program has an alternate signal stack without room for a handler of ours: none is used from now on. */
void piano__cpu_stay_off_stacks(void);
/* Before the calling thread executes another program: no sample may be on its way then. And after, when it did not. */
void piano__cpu_pause(void);
void piano__cpu_resume(void);
/* After dlclose. */
void piano__cpu_unloaded(void);

#endif
