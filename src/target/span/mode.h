/* How a function is timed: every call with a fenced clock, every call with the plain one, or a random
 * sample of the calls. Decided per thread and function, from what its calls have cost so far. */
#ifndef PIANO_TARGET_SPAN_MODE_H
#define PIANO_TARGET_SPAN_MODE_H

#include "target/span/thread.h"

/* What a timed call came to, in ticks. */
struct piano__timing {
    int64_t self;
    int64_t total; /* what it adds to the function's total */
    int64_t inner; /* 1/256 ticks: the probe's own cost, inside the window and outside */
    int64_t outer;
    int64_t spent; /* 1/256 ticks: all that timing the call took, more or less */
    int64_t below; /* 1/256 ticks: what probes took inside the window */
};

/* The call in ENTRY has ended as TIMING says, at NOW. May change `mode`, `gap`, `left` and the prices of the
 * slot; a sample adds what it corrects to the function and to the thread's sums. */
void piano__mode_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__entry *entry, const struct piano__timing *timing,
                       int64_t now);

/* The calls of a sampled function's stratum have been made. */
void piano__mode_next_stratum(struct piano__thread *t, struct piano__slot *slot);

/* A frame has ended, in which so many sampled FUNCTIONS were called. */
void piano__mode_frame(struct piano__thread *t, uint32_t functions);
/* The same, of a function that was called in it, which took WALL ticks: a function with enough calls in each frame is estimated frame by frame. */
void piano__mode_frame_ended(struct piano__thread *t, struct piano__slot *slot, int64_t wall);

/* Calls that take longer are not multiplied: the watcher sees all of them. In ticks. */
int64_t piano__mode_long(void);

/* No function changes its mode: while calibrating, and with PIANO_TIMING=all (every call is timed). */
extern bool piano__mode_pinned;
void piano__mode_init(void);

#endif
