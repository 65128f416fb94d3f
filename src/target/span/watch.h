/* The watcher: a thread that looks, every millisecond, which function each thread is in. */
#ifndef PIANO_TARGET_SPAN_WATCH_H
#define PIANO_TARGET_SPAN_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts it, unless it runs. The calling thread has a sampled function. */
void piano__watch_begin(void);
/* Ends it; returns at once. */
void piano__watch_end(void);
/* In a forked child, which does not have the thread. */
void piano__watch_forget(void);

extern _Atomic bool piano__watch_runs;

/* Ticks between two looks; set once the rate of the clock is known. */
extern int64_t piano__watch_ticks;
void piano__watch_prepare(uint64_t ns_per_tick_32);

#endif
