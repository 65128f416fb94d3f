/* What the probes themselves cost on this machine, now. */
#ifndef PIANO_TARGET_SPAN_CALIBRATE_H
#define PIANO_TARGET_SPAN_CALIBRATE_H

#include "common/live.h"

/* Fills in `bias` and `ns_per_tick_32`; takes about 2 ms. The image plan must be in HEADER. */
void piano__calibrate(struct piano__live_header *header);

/* VALUE at X, between the points of the curve AT; constant beyond its ends. */
int64_t piano__curve(const int64_t at[PIANO_BODIES], const int64_t value[PIANO_BODIES], int64_t x);

#endif
