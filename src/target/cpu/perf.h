/* A perf event for one thread, opened by the program itself, that interrupts the thread with a
 * signal. */
#ifndef PIANO_TARGET_CPU_PERF_H
#define PIANO_TARGET_CPU_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include "target/cpu/threads.h"

/* Opens an event for T, as WISH says. Returns 0 or a negative errno: -EACCES and -EPERM if the
 * kernel refuses, -ENOENT if it has no such counter. */
int piano__cpu_perf_open(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish,
                         int signal);
/* Stops the signals. The memory of the ring buffer stays until it is freed or opened again, since
 * the thread may be in its handler. */
void piano__cpu_perf_close(struct piano__cpu_thread *t);
void piano__cpu_perf_free(struct piano__cpu_thread *t);

/* Stops signals for T, the calling thread, and drops pending ones; or starts them again. */
void piano__cpu_perf_pause(const struct piano__cpu_thread *t, bool is_pause, int signal);

/* Call in a forked child: closes the descriptor of a thread of the parent. */
void piano__cpu_perf_drop(const struct piano__cpu_thread *t);

/* Call in the handler of T. Makes one sample of everything since the last call, with the kernel's
 * frames in T's chain. Returns how many nanoseconds it represents; 0: there was nothing new. */
uint64_t piano__cpu_perf_take(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish);

#endif
