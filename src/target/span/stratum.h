/* How many calls of a sampled function make a stratum, of which one is timed. */
#ifndef PIANO_TARGET_SPAN_STRATUM_H
#define PIANO_TARGET_SPAN_STRATUM_H

#include "target/span/mode.h"

enum {
    PIANO_STRATUM_LEAST = 5, /* a smaller one is not worth sampling */
    PIANO_STRATUM_MOST = 4096,
    PIANO_FRAME_STRATA = 12 /* samples in each frame, of a function with many calls in it */
};

/* How often a function was called: CALLS in SPAN ns. */
struct piano__rate {
    int64_t calls;
    int64_t span;
};

/* A call of the function has been timed: what calls cost, how much that varies, and what timing them costs. */
void piano__stratum_see(struct piano__slot *slot, const struct piano__timing *m);
/* Whether a call that took COST ticks is a rare long one among calls that take USUAL. */
bool piano__stratum_is_rare(int64_t cost, int64_t usual);
/* Ticks by which a call is longer than others, at least, to be a rare long one. */
int64_t piano__stratum_rare(void);
/* The size of the next stratum of a function that is called as RATE says. */
int64_t piano__stratum_choose(const struct piano__thread *t, const struct piano__slot *slot,
                              struct piano__rate rate, int64_t now);
/* How small a part of the time one function's probes may take now; adapts what all of the thread's may take. */
int64_t piano__stratum_share(struct piano__thread *t, int64_t now);

#endif
