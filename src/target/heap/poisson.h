/* Selects the bytes to sample, and computes what a sample represents.
 *
 * Marks fall on the bytes that a thread allocates, as a Poisson process, one in RATE on average. A
 * block is sampled if a mark falls into it, so with probability p = 1 - exp(-size/RATE). It then
 * represents size/p bytes and 1/p objects. So every sum of samples is unbiased for any sizes. RATE
 * 1 samples everything. */
#ifndef PIANO_TARGET_HEAP_POISSON_H
#define PIANO_TARGET_HEAP_POISSON_H

#include <stdint.h>

struct piano__weight {
    double bytes;
    double objects;
    double variance; /* what this sample adds to the variance of a sum of bytes */
};

struct piano__weight piano__poisson_weight(uint64_t size, uint64_t rate);

/* xoshiro256++: one per thread. */
struct piano__random {
    uint64_t state[4];
};

void piano__random_seed(struct piano__random *random, uint64_t seed);
uint64_t piano__random_next(struct piano__random *random);

/* Returns the number of bytes up to and including the next mark: 1 or more. */
uint64_t piano__poisson_gap(struct piano__random *random, uint64_t rate);

#endif
