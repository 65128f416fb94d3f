/* A timer on the CPU time of one thread, which interrupts the thread with a signal. */
#ifndef PIANO_TARGET_CPU_TIMER_H
#define PIANO_TARGET_CPU_TIMER_H

#include <stdint.h>

#include "target/cpu/threads.h"

/* Returns the CPU time of thread TID; 0 if the thread has ended. */
uint64_t piano__cpu_time_of(uint32_t tid);

/* Starts the timer of T. `begun_ns` must be set. Returns 0 or a negative errno. */
int piano__cpu_timer_start(struct piano__cpu_thread *t, uint64_t period_ns, int signal);
void piano__cpu_timer_stop(const struct piano__cpu_thread *t);

/* Call in the handler of T, after its timer expired 1 + OVERRUN times. Returns how many nanoseconds
 * the sample represents. */
uint64_t piano__cpu_timer_take(struct piano__cpu_thread *t, uint64_t period_ns, int overrun);

#endif
