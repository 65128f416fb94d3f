/* A perf event of one thread, opened by the program itself, that interrupts the thread with a signal. */
#ifndef PIANO_TARGET_CPU_PERF_H
#define PIANO_TARGET_CPU_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include "target/cpu/threads.h"

/* For T, as WISH says. 0 or negative errno: -EACCES and -EPERM where the kernel refuses, -ENOENT where it has no such counter. */
int piano__cpu_perf_open(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish,
                         int signal);
/* No more signals. The room of the ring stays, since the thread may be in its handler, until it is freed or opened again. */
void piano__cpu_perf_close(struct piano__cpu_thread *t);
void piano__cpu_perf_free(struct piano__cpu_thread *t);

/* T, the calling thread: no more signals, and none that is on its way or blocked; or they come again. */
void piano__cpu_perf_pause(const struct piano__cpu_thread *t, bool is_pause, int signal);

/* In a forked child: lets go of what belongs to a thread of the parent. */
void piano__cpu_perf_drop(const struct piano__cpu_thread *t);

/* In the handler of T: what there is since the last time becomes one sample, with the kernel's frames in T's chain. How many
 * nanoseconds it stands for; 0: none, it was nothing new. */
uint64_t piano__cpu_perf_take(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish);

#endif
