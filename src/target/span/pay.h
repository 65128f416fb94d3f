/* Long calls that were merely counted: what of a caller's time is moved to the function it called. */
#ifndef PIANO_TARGET_SPAN_PAY_H
#define PIANO_TARGET_SPAN_PAY_H

#include "target/span/thread.h"

/* What a caller gave to functions it calls, which have it already. */
struct piano__paid {
    int64_t ticks;
    double variance; /* ticks squared */
};

/* A sample of SLOT was taken inside the call in CALLER, of which OWN ticks are its own so far. */
struct piano__paid piano__pay_sample(struct piano__thread *t, struct piano__slot *slot,
                                     struct piano__entry *caller, int64_t own, int64_t now);
/* The call in CALLER has ended, with OWN ticks. For the function of the last sample in it. */
struct piano__paid piano__pay_end(struct piano__thread *t, struct piano__entry *caller, int64_t own,
                                  int64_t now);
/* The counted calls of a stratum of SLOT, at PRICE each, have their part of rare long ones. */
void piano__pay_reserve(struct piano__slot *slot, int64_t price);

#endif
