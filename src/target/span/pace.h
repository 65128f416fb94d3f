/* How fast the probes are now, against when they were calibrated.
 *
 * What a fenced read costs depends on what else the core does: with a busy neighbour on its other hyperthread it is a fifth more,
 * which is 8 ns a call, for seconds or minutes on a shared host. So now and then a timed call, when it has ended, reads the
 * clock twice with nothing in between, as calibration did. */
#ifndef PIANO_TARGET_SPAN_PACE_H
#define PIANO_TARGET_SPAN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/live.h"

enum { PIANO_PACE_UNIT = 4096 };

/* A fenced call has ended: whether it is one that does so. */
static inline bool piano__pace_is_due(struct piano__thread *t)
{
    return --t->next_pair < 0;
}

void piano__pace_take(struct piano__thread *t);
/* Two reads, one right after the other, were TICKS apart. */
void piano__pace_learn(struct piano__thread *t, int64_t ticks);

/* COST of a fenced probe as calibrated; what it is now. */
static inline int64_t piano__paced(const struct piano__thread *t, int64_t cost)
{
    return t->pace ? cost * t->pace / PIANO_PACE_UNIT : cost;
}

#endif
