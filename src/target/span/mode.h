/* How a function is timed: every call with a fenced clock, every call with the plain one, or a sample of
 * the calls. Decided per thread and function, from what its calls have cost so far. */
#ifndef PIANO_TARGET_SPAN_MODE_H
#define PIANO_TARGET_SPAN_MODE_H

#include "target/span/thread.h"

/* The call in ENTRY has ended; SELF and TOTAL in ticks, NOW the clock, SPENT what its probe took, in 1/256 ticks.
 * May change `mode`, `gap`, `left` and the estimates of the slot. */
void piano__mode_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__entry *entry, int64_t self, int64_t total, int64_t now,
                       int64_t spent);

/* What a sample says of a recursive function leans on the estimate itself, the more calls of itself were in it: only
 * samples with so few teach. */
enum { PIANO_TEACHING_CALLS = 8 };

/* A timed call had SELF ticks of its own beside COUNTED ticks of estimates: less than nothing says that these were
 * too high. */
void piano__mode_reconcile(struct piano__thread *t, int64_t self, int64_t counted);

/* Whether a sampled call took so much longer than the estimate that it is a story of its own. */
bool piano__mode_is_outlier(struct piano__thread *t, const struct piano__slot *slot, int64_t self);

/* No function changes its mode: while calibrating, and with PIANO_TIMING=all (every call is timed). */
extern bool piano__mode_pinned;
void piano__mode_init(void);

#endif
