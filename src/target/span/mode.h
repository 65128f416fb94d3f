/* How a function is timed: every call with the fenced clock, every call with the plain clock, or a
 * random sample of the calls. Chosen per thread and function from the cost of its calls so far. */
#ifndef PIANO_TARGET_SPAN_MODE_H
#define PIANO_TARGET_SPAN_MODE_H

#include "target/span/thread.h"

/* Result of a timed call, in ticks. */
struct piano__timing {
    int64_t self;
    int64_t total; /* what it adds to the function's total */
    int64_t inner; /* 1/256 ticks: cost of the probe inside the window, and outside (`outer`) */
    int64_t outer;
    int64_t spent; /* 1/256 ticks: estimate of everything that timing the call took */
    int64_t below; /* 1/256 ticks: probes inside the window of a sample */
};

/* Called when the call in ENTRY has ended at NOW with TIMING. May change `mode`, `left`, the
 * stratum and the prices of the slot. A sample adds its correction to the function and to the
 * thread's sums. */
void piano__mode_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__entry *entry, const struct piano__timing *timing,
                       int64_t now);

/* Starts the next stratum of a sampled function, after all calls of the current one. */
void piano__mode_next_stratum(struct piano__thread *t, struct piano__slot *slot);

/* Called when a frame has ended in which FUNCTIONS sampled functions were called. */
void piano__mode_frame(struct piano__thread *t, uint32_t functions);
/* Called for each function called in a frame that ended after WALL ticks. A function with enough
 * calls per frame is estimated frame by frame. */
void piano__mode_frame_ended(struct piano__thread *t, struct piano__slot *slot, int64_t wall);

/* Longer calls, in ticks, are not multiplied: the watcher sees all of them. */
int64_t piano__mode_long(void);

/* If set, no function changes its mode: during calibration, and with PIANO_TIMING=all. */
extern bool piano__mode_pinned;
/* PIANO_TIMING=all: every probe measures itself (toll.h). */
extern bool piano__mode_exact;
void piano__mode_init(void);

#endif
