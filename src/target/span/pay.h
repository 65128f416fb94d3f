/* Moves time from a caller to a function whose long call was only counted. */
#ifndef PIANO_TARGET_SPAN_PAY_H
#define PIANO_TARGET_SPAN_PAY_H

#include "target/span/thread.h"

/* Time a caller gave to its callees. Their tallies already contain it. */
struct piano__paid {
    int64_t ticks;
    double variance; /* ticks squared */
};

/* Called after a sample of SLOT inside the call in CALLER, whose self time so far is OWN ticks. */
struct piano__paid piano__pay_sample(struct piano__thread *t, struct piano__slot *slot,
                                     struct piano__entry *caller, int64_t own, int64_t now);
/* Called when the call in CALLER ends with OWN ticks. Pays the function of its last sample. */
struct piano__paid piano__pay_end(struct piano__thread *t, struct piano__entry *caller, int64_t own,
                                  int64_t now);
/* Adds to the reserve of SLOT what the counted calls of a stratum, at PRICE each, owe to rare long
 * calls. */
void piano__pay_reserve(struct piano__slot *slot, int64_t price);

#endif
