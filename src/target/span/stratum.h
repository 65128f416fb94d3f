/* Size of the strata of a sampled function. One call of each stratum is timed. */
#ifndef PIANO_TARGET_SPAN_STRATUM_H
#define PIANO_TARGET_SPAN_STRATUM_H

#include "target/span/mode.h"

enum {
    PIANO_STRATUM_LEAST = 5, /* sampling does not pay below this */
    PIANO_STRATUM_MOST = 4096,
    PIANO_FRAME_STRATA = 12 /* samples per frame of a function with many calls in it */
};

/* Call rate of a function: CALLS in SPAN ns. */
struct piano__rate {
    int64_t calls;
    int64_t span;
};

/* Updates the mean, the variance and the cost of timing after a timed call. */
void piano__stratum_see(struct piano__slot *slot, const struct piano__timing *m);
/* Returns whether a call of COST ticks is a rare long one when calls usually take USUAL ticks. */
bool piano__stratum_is_rare(int64_t cost, int64_t usual);
/* Returns the least excess of a rare long call over usual calls, in ticks. */
int64_t piano__stratum_rare(void);
/* Returns the size of the next stratum of a function that is called at RATE. */
int64_t piano__stratum_choose(const struct piano__thread *t, const struct piano__slot *slot,
                              struct piano__rate rate, int64_t now);
/* Returns S: the probes of one function may take 1/S of the time. Also adapts the thread's
 * budget. */
int64_t piano__stratum_share(struct piano__thread *t, int64_t now);

#endif
