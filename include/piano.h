/* piano.h: the interface of the runtime that `piano build` links into a program. Including it is never
 * needed to be profiled; it is for programs that want to know. */
#ifndef PIANO_H
#define PIANO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the runtime, "MAJOR.MINOR.PATCH". Any thread, signal-safe. */
const char *piano_version(void);

/* 1 while calls of this process are being recorded, 0 before the first instrumented call, after the run has
 * ended, or when its file could not be created. Any thread, signal-safe. */
int piano_is_recording(void);

/* The heap profiler. `piano record --heap` starts it without any of this; a program that has libpiano.so loaded can
 * also do it by itself. All return 0 or a negative errno. Not for signal handlers, except piano_heap_stats.
 *
 * The recording is created by the first start and lies in the runs directory ($PIANO_RUNS_DIR, else that of
 * `piano build`, else .piano/runs).
 *
 *   start      -> sampling, one allocation in MEAN_BYTES bytes (1: every one). -EALREADY while it samples, -EINVAL for 0,
 *                 -ESHUTDOWN after shutdown, -ENOSYS where the program is linked statically and nothing can be seen,
 *                 -ENOTSUP where its executable has a malloc of its own, -EBUSY while another thread starts or stops
 *   stop       -> no new samples; frees of what was sampled are still followed. Then start goes on, with any rate.
 *                 -ENOTCONN when it does not sample
 *   snapshot   -> the sums as they are now go into the recording, for `piano report --heap --growth`; its number from 1
 *   shutdown   -> for good: nothing is followed any more */
int piano_heap_start(size_t mean_bytes);
int piano_heap_stop(void);
int piano_heap_snapshot(void);
int piano_heap_shutdown(void);

struct piano_heap_stats {
    uint64_t mean_bytes;
    uint64_t samples;
    uint64_t live_samples;
    uint64_t freed_samples;
    uint64_t stacks;
    uint64_t dropped;  /* samples that are not, or not wholly, in the recording */
    double live_bytes; /* estimates, as in a report */
    double live_objects;
    double allocated_bytes;
    double peak_bytes;
    double live_variance; /* of live_bytes: the 95 % interval is +- 1.96 times its root */
};

/* -ENOTCONN when there is no recording. */
int piano_heap_stats(struct piano_heap_stats *out);

/* The trace: what a runtime tells about its workers and tasks, for `piano record --events`. Any thread, signal-safe (an event of
 * a signal handler in the middle of another event of the same thread is dropped, and counted). An event takes some
 * nanoseconds and less than a dozen bytes; when nothing is recorded, a call does nothing.
 *
 * Workers, tasks and queues are told apart by numbers of your choice; every 64-bit value is one, and a pointer will do
 * (small numbers take fewer bytes). Names are text of any length, copied: the first 1000 bytes of up to 16384 different
 * names. NULL is no name. */

/* This thread is WORKER from now on; again when the worker moves to another thread. */
void piano_worker_start(uint64_t worker, const char *name);
void piano_worker_stop(void);

/* TASK exists from now on; PLACE is where it is spawned, such as "server.c:120". After its end the number may be used
 * for another task. */
void piano_task_spawn(uint64_t task, const char *name, const char *place);
void piano_task_end(uint64_t task);

/* This thread runs TASK, until the end of the poll. */
void piano_poll_begin(uint64_t task);
void piano_poll_end(void);

/* This thread has nothing to do, and waits for something. Programs that wait by epoll, poll, select, io_uring (liburing),
 * condition variables or semaphores need not say so: such waits are seen. Those between park and unpark are part of that
 * park. */
void piano_park(void);
void piano_unpark(void);

/* TASK can go on: this thread, or the task it runs now, has woken it. */
void piano_wake(uint64_t task);

/* QUEUE holds DEPTH tasks now. */
void piano_queue_depth(uint64_t queue, uint64_t depth);

/* A moment, or a value at this moment, that is worth a name. */
void piano_mark(const char *name);
void piano_value(const char *name, int64_t value);

#ifdef __cplusplus
}
#endif

#endif
