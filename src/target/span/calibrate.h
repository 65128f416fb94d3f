/* What the probes themselves cost on this machine, now. */
#ifndef PIANO_TARGET_SPAN_CALIBRATE_H
#define PIANO_TARGET_SPAN_CALIBRATE_H

#include "common/live.h"

/* Fills in `bias` and `ns_per_tick_32`; takes about 2 ms. The image plan must be in HEADER. */
void piano__calibrate(struct piano__live_header *header);

#endif
