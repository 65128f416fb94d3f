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
 *                 -ESHUTDOWN after shutdown, -ENOSYS where the program is linked statically and nothing can be seen
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

#ifdef __cplusplus
}
#endif

#endif
