/* How much of a call its thread was off the CPU: the arithmetic, shared by the runtime and by the recovery of open
 * calls. target/span/onoff.h says when the clocks are read. */
#ifndef PIANO_COMMON_OFFCPU_H
#define PIANO_COMMON_OFFCPU_H

#include <stdint.h>

#include "common/live.h"

struct piano__call { /* ticks */
    int64_t elapsed; /* by the clock */
    int64_t stale;   /* from the last reading before the call to its begin; 0: as good as none */
    int64_t self;    /* corrected */
    int64_t total;
    int64_t weight; /* how many calls it stands for */
};

/* Gives a call that just ended, and began at BEGAN, its part of the time off the CPU that NOW knows of: adds to
 * TALLY what was certainly the function's own and to the running sums in NOW what is accounted for.
 *
 * It is a lower bound. Time off the CPU between the last reading and the begin of the call may be the caller's, and
 * callees that were not checked may have had some of it: both are left out. */
void piano__offcpu_share(struct piano__offcpu *now, const struct piano__offcpu *began,
                         const struct piano__call *call, uint64_t ns_per_tick_32,
                         struct piano__tally *tally);

static inline int64_t piano__within(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

#endif
