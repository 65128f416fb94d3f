/* The watcher: a thread that records every millisecond which function each thread is in. */
#ifndef PIANO_TARGET_SPAN_WATCH_H
#define PIANO_TARGET_SPAN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Starts the watcher unless it was started. Called when a function becomes sampled. */
void piano__watch_begin(void);
/* Asks the watcher to end. Does not wait for it. */
void piano__watch_end(void);
/* Resets the state in a forked child, which has no watcher thread. */
void piano__watch_forget(void);

extern bool piano__watch_runs;

/* Ticks between two looks; set once the clock rate is known. */
extern int64_t piano__watch_ticks;
void piano__watch_prepare(uint64_t ns_per_tick_32);

#endif
