/* Current speed of the probes relative to calibration.
 *
 * The cost of a fenced read depends on what else the core does. A busy neighbour on the other
 * hyperthread adds a fifth, 8 ns per call, for seconds or minutes on a shared host. So at the end
 * of some timed calls the probe reads the clock twice with nothing in between, as calibration
 * did. */
#ifndef PIANO_TARGET_SPAN_PACE_H
#define PIANO_TARGET_SPAN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/live.h"

enum { PIANO_PACE_UNIT = 4096 };

/* Called when a fenced call has ended. Returns whether it should measure the pace. */
static inline bool piano__pace_is_due(struct piano__thread *t)
{
    return --t->next_pair < 0;
}

void piano__pace_take(struct piano__thread *t);
/* Adds one measurement: two consecutive reads were TICKS apart. */
void piano__pace_learn(struct piano__thread *t, int64_t ticks);

/* Scales the calibrated COST of a fenced probe to the current pace. */
static inline int64_t piano__paced(const struct piano__thread *t, int64_t cost)
{
    return t->pace ? cost * t->pace / PIANO_PACE_UNIT : cost;
}

#endif
