/* Computes how long a thread was off the CPU during a call. The runtime and the recovery of open
 * calls share this code. target/span/onoff.h says when the clocks are read. */
#ifndef PIANO_COMMON_OFFCPU_H
#define PIANO_COMMON_OFFCPU_H

#include <stdint.h>

#include "common/live.h"

struct piano__call { /* ticks */
    int64_t elapsed; /* wall-clock time */
    int64_t stale;   /* from the last reading before the call to its start; 0: negligible */
    int64_t self;    /* corrected */
    int64_t total;
    int64_t weight; /* how many calls it represents */
};

/* Attributes off-CPU time to a call that has just ended. BEGAN is the reading at its start, NOW the
 * current one. Adds to TALLY what was certainly the function's own, and updates the running sums in
 * NOW.
 *
 * The result is a lower bound. Two parts are left out: off-CPU time between the last reading and
 * the start of the call, which may be the caller's, and time in callees that were not checked. */
void piano__offcpu_share(struct piano__offcpu *now, const struct piano__offcpu *began,
                         const struct piano__call *call, uint64_t ns_per_tick_32,
                         struct piano__tally *tally);

/* Attributes off-CPU time to the PIECE of an open call that ended just before the reading NOW: the
 * stretch of its own code since its last callee. BEFORE is the reading before NOW. What the rest of
 * the time between the readings may explain is left out. Updates the running sums in NOW; *OFF and
 * *RUNQ grow by what is the piece's. */
void piano__offcpu_piece(struct piano__offcpu *now, const struct piano__offcpu *before,
                         int64_t piece, uint64_t ns_per_tick_32, int64_t *off, int64_t *runq);

static inline int64_t piano__within(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

#endif
