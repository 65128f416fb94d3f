/* piano.h: the interface of the runtime, libpiano.so. `piano build` links it into a program and
 * `piano record` loads it into one. No program needs this header to be profiled. It is for programs
 * that start and stop profilers themselves, or that report their own tasks to piano
 * (docs/integrating.md). */
#ifndef PIANO_H
#define PIANO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the runtime, "MAJOR.MINOR.PATCH". Any thread, signal-safe. */
const char *piano_version(void);

/* Returns 1 while calls of this process are being recorded. Returns 0 before the first instrumented
 * call, after the run has ended, and if its file could not be created. Any thread, signal-safe. */
int piano_is_recording(void);

/* The heap profiler. `piano record --heap` starts it without any of these functions. A program that
 * has libpiano.so loaded can also start it itself. All functions return 0 or a negative errno. Do
 * not call them from signal handlers, except piano_heap_stats.
 *
 * The first start creates the recording, in the runs directory ($PIANO_RUNS_DIR, else that of
 * `piano build`, else .piano/runs).
 *
 *   start      -> samples one allocation in MEAN_BYTES bytes (1: every allocation). -EALREADY if
 *                 already sampling, -EINVAL for 0, -ESHUTDOWN after shutdown, -ENOSYS in a
 *                 statically linked program, where no hook sees allocations, -ENOTSUP if the
 *                 executable has its own malloc, -EBUSY while another thread starts or stops
 *   stop       -> takes no new samples; frees of sampled blocks are still tracked. start may then
 *                 resume with any rate. -ENOTCONN if not sampling
 *   snapshot   -> copies the current sums into the recording, for `piano report --heap --growth`.
 *                 Returns its number, from 1
 *   shutdown   -> permanently: frees are not tracked any more */
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
    uint64_t dropped;  /* samples that are missing or incomplete in the recording */
    double live_bytes; /* estimates, as in a report */
    double live_objects;
    double allocated_bytes;
    double peak_bytes;
    double live_variance;   /* of live_bytes: the 95 % interval is +- 1.96 times its square root */
    uint64_t room;          /* how many live samples fit */
    uint64_t collisions;    /* stack look-ups that found another stack first */
    uint64_t walks;         /* stacks walked, one for each sample */
    uint64_t walked_frames; /* the sum of their depths */
    uint64_t walks_cut;     /* truncated walks: the end was not found, or too deep */
    uint64_t least_depth;   /* depth of the shallowest stack */
};

/* Returns -ENOTCONN if there is no recording. */
int piano_heap_stats(struct piano_heap_stats *out);

/* A sampled block that is not freed. */
struct piano_heap_block {
    uint64_t address;
    uint64_t size;
    uint64_t mean_bytes; /* sampling rate at that time: one in so many bytes */
    uint64_t birth_ns;   /* CLOCK_MONOTONIC */
    double bytes;        /* what it represents */
    double objects;
    uint32_t thread; /* tid of the allocating thread */
    uint32_t stack;  /* a number for each distinct stack; 0: there was no room for it */
    uint32_t depth;  /* number of PCS */
    /* Return addresses, innermost first; valid until the process ends or forks. */
    const uint64_t *pcs;
};

/* A Python function in such a stack. */
struct piano_python_frame {
    char function[1028]; /* qualified name, UTF-8 as far as it is text */
    char file[2052];
    uint32_t line; /* 0: unknown */
};

/* In CPython programs (3.11 or later), stacks contain Python functions, each with a number in place
 * of an address. Returns 1 and fills OUT if PC is one, else 0. Any thread, signal-safe. */
int piano_python_frame(uint64_t pc, struct piano_python_frame *out);

/* Calls EACH for every such block, until it returns nonzero. Other threads keep running: each block
 * is reported as it was at one moment. Returns the number of blocks, or -ENOTCONN if there is no
 * recording. EACH may allocate. */
int piano_heap_blocks(int (*each)(void *arg, const struct piano_heap_block *block), void *arg);

/* ON = 1: allocations of this thread are neither sampled nor counted until the matching call
 * with 0. */
void piano_heap_ignore(int on);

/* The path of the recording, or NULL when there is none. */
const char *piano_heap_recording(void);

/* The CPU profiler: takes samples of the stacks of the program's threads. `piano record --cpu` does
 * this from outside, without any of these functions. A program that has libpiano.so loaded can also
 * do it itself, for a part of its run time. Do not call these functions from signal handlers,
 * except piano_cpu_stats. The samples go into the same recording as those of the heap profiler.
 *
 * A signal interrupts every thread `frequency_hz` times per second of its CPU time: SIGPROF, or a
 * real-time signal if the program uses SIGPROF. Threads that block the signal are not sampled.
 * Missing samples are counted as lost. */
enum piano_cpu_source {
    PIANO_SOURCE_AUTO = 0, /* timers: they need no privileges, and no descriptors of the program */
    /* perf's cpu-clock: one descriptor per thread, more exact than the kernel's tick */
    PIANO_SOURCE_CPU_CLOCK = 1,
    /* perf's count of CPU cycles, if available; one descriptor per thread */
    PIANO_SOURCE_CYCLES = 2,
    /* a CPU-time timer per thread, which the kernel checks at each tick */
    PIANO_SOURCE_TIMERS = 3,
};

/* Zero in all fields but `size` means the default. */
struct piano_cpu_options {
    size_t size;             /* sizeof(struct piano_cpu_options) */
    uint32_t frequency_hz;   /* samples per second of a thread's CPU time, 1 to 10000; 0: 99 */
    uint32_t source;         /* enum piano_cpu_source */
    uint32_t include_kernel; /* 1: also sample time in the kernel, with its frames; perf only */
};

/*   start      -> samples all threads as OPTIONS say; NULL: the default. -EALREADY if already
 *                 sampling, -EINVAL for invalid options, -ENOTSUP for kernel frames without perf
 *                 and if the program leaves no signal free, -EACCES or -EPERM if the kernel refuses
 *                 perf, -ENOENT and similar if it has no such counter, -EAGAIN if no more timers
 *                 are available (ulimit -i), -EBUSY while another thread starts or stops and if
 *                 `piano record` already samples this process
 *   stop       -> takes no more samples. start may then resume with any options. -ENOTCONN if not
 *                 sampling. With perf, setting a SIGPROF handler also stops sampling */
int piano_cpu_start(const struct piano_cpu_options *options);
int piano_cpu_stop(void);

struct piano_cpu_stats {
    uint32_t source; /* enum piano_cpu_source, never AUTO */
    uint32_t frequency_hz;
    uint32_t is_sampling;
    uint32_t threads; /* threads that are sampled now */
    uint64_t samples;
    uint64_t unwound;        /* samples with a complete stack */
    uint64_t lost;           /* samples that were due but not taken */
    uint64_t threads_missed; /* threads that could not be sampled at all */
};

/* Returns -ENOTCONN if nothing was ever sampled. */
int piano_cpu_stats(struct piano_cpu_stats *out);

/* The trace: what a runtime reports about its workers and tasks, for `piano record --events`. Any
 * thread, signal-safe. (An event of a signal handler that interrupts another event of the same
 * thread is dropped and counted.) An event takes a few nanoseconds and less than a dozen bytes.
 * When nothing is recorded, a call does nothing.
 *
 * You choose the numbers that identify workers, tasks and queues. Any 64-bit value is valid, and a
 * pointer works (small numbers take fewer bytes). Names are copied text: the first 1000 bytes of up
 * to 16384 different names. NULL means no name. */

/* This thread is WORKER from now on. Call it again when the worker moves to another thread. */
void piano_worker_start(uint64_t worker, const char *name);
void piano_worker_stop(void);

/* TASK exists from now on. PLACE is where it is spawned, such as "server.c:120". After its end, the
 * number may be used for another task. */
void piano_task_spawn(uint64_t task, const char *name, const char *place);
void piano_task_end(uint64_t task);

/* This thread runs TASK until piano_poll_end. */
void piano_poll_begin(uint64_t task);
void piano_poll_end(void);

/* This thread has nothing to do and waits. Waits by epoll, poll, select, io_uring (liburing),
 * condition variables or semaphores are detected without these calls. Such waits between park and
 * unpark are part of that park. */
void piano_park(void);
void piano_unpark(void);

/* TASK can run again: this thread, or the task it runs now, has woken it. */
void piano_wake(uint64_t task);

/* QUEUE holds DEPTH tasks now. */
void piano_queue_depth(uint64_t queue, uint64_t depth);

/* A named point in time, or a named value at this time. */
void piano_mark(const char *name);
void piano_value(const char *name, int64_t value);

#ifdef __cplusplus
}
#endif

#endif
