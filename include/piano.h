/* piano.h: the interface of the runtime, libpiano.so, that `piano build` links into a program and `piano record` loads into
 * one. No program needs it to be profiled. It is for those that want to start and stop profilers by themselves, or to tell
 * piano about their own tasks (docs/integrating.md). */
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
    double live_variance;   /* of live_bytes: the 95 % interval is +- 1.96 times its root */
    uint64_t room;          /* live samples there is room for */
    uint64_t collisions;    /* look-ups of stacks that met another stack first */
    uint64_t walks;         /* stacks walked, one for each sample */
    uint64_t walked_frames; /* their depths, added up */
    uint64_t walks_cut;     /* of them cut short: not followed to the end, or too deep */
    uint64_t least_depth;   /* of the shallowest */
};

/* -ENOTCONN when there is no recording. */
int piano_heap_stats(struct piano_heap_stats *out);

/* A sampled block that is not freed. */
struct piano_heap_block {
    uint64_t address;
    uint64_t size;
    uint64_t mean_bytes; /* sampling at the time: one in so many bytes */
    uint64_t birth_ns;   /* CLOCK_MONOTONIC */
    double bytes;        /* what it stands for */
    double objects;
    uint32_t thread; /* that allocated it: its tid */
    uint32_t stack;  /* a number for each distinct stack; 0: there was no room for it */
    uint32_t depth;  /* of the stack: how many PCS there are */
    /* Return addresses, innermost first; valid until the process ends or forks. */
    const uint64_t *pcs;
};

/* A function of Python in such a stack. */
struct piano_python_frame {
    char function[1028]; /* its qualified name, UTF-8 as far as it is text */
    char file[2052];
    uint32_t line; /* 0: not known */
};

/* Programs that are CPython (3.11 or later) have functions of Python in their stacks, each with a number in place of an
 * address. 1 when PC is one, and then OUT is filled; else 0. Any thread, signal-safe. */
int piano_python_frame(uint64_t pc, struct piano_python_frame *out);

/* Calls EACH for every such block, until it returns something else than 0, while other threads go on: each block is told as it
 * was at one moment. Returns how many there were, or -ENOTCONN when there is no recording. EACH may allocate. */
int piano_heap_blocks(int (*each)(void *arg, const struct piano_heap_block *block), void *arg);

/* With ON, what this thread allocates is not sampled, until the call with 0 that belongs to it. */
void piano_heap_ignore(int on);

/* The path of the recording, or NULL when there is none. */
const char *piano_heap_recording(void);

/* The CPU profiler: what the program's threads do, by samples of their stacks. `piano record --cpu` does this without any of it,
 * from outside; a program that has libpiano.so loaded can also do it by itself, for a part of its time. Not for signal
 * handlers, except piano_cpu_stats. The recording is the one of the heap profiler.
 *
 * Every thread is interrupted by a signal so often in a second of its CPU time: SIGPROF, or a real-time signal where the program
 * uses that. Threads that block the signal are not sampled; what is missing is counted as lost. */
enum piano_cpu_source {
    PIANO_SOURCE_AUTO = 0, /* timers: they need no rights, and no descriptors of the program */
    /* perf's clock: a descriptor for each thread, more exact than the kernel's tick */
    PIANO_SOURCE_CPU_CLOCK = 1,
    /* perf's count of the processor's cycles, where there is one; likewise */
    PIANO_SOURCE_CYCLES = 2,
    /* a CPU-time timer for each thread, which the kernel looks at when it ticks */
    PIANO_SOURCE_TIMERS = 3,
};

/* All 0 but `size` is the default. */
struct piano_cpu_options {
    size_t size;             /* sizeof(struct piano_cpu_options) */
    uint32_t frequency_hz;   /* samples in a second of a thread's CPU time, 1 to 10000; 0: 99 */
    uint32_t source;         /* enum piano_cpu_source */
    uint32_t include_kernel; /* 1: time in the kernel too, with its frames; perf only */
};

/* start      -> sampling of all threads, as OPTIONS say; NULL: the default. -EALREADY while it samples, -EINVAL for options that
 *               make no sense, -ENOTSUP for the kernel's frames without perf and where the program leaves no signal free,
 *               -EACCES or -EPERM where the kernel refuses perf, -ENOENT and the like where it has no such counter, -EAGAIN
 *               where there are no more timers (ulimit -i), -EBUSY while another thread starts or stops and under a
 *               `piano record` that samples it already
 * stop       -> no more samples; then start goes on, with any options. -ENOTCONN when it does not sample. Also what
 *               happens by itself with perf when the program sets a handler for SIGPROF. */
int piano_cpu_start(const struct piano_cpu_options *options);
int piano_cpu_stop(void);

struct piano_cpu_stats {
    uint32_t source; /* enum piano_cpu_source, never AUTO */
    uint32_t frequency_hz;
    uint32_t is_sampling;
    uint32_t threads; /* that are sampled now */
    uint64_t samples;
    uint64_t unwound;        /* of them with a whole stack */
    uint64_t lost;           /* samples that should have been there */
    uint64_t threads_missed; /* threads that could not be sampled at all */
};

/* -ENOTCONN when nothing was ever sampled. */
int piano_cpu_stats(struct piano_cpu_stats *out);

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
