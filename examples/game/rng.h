/* A small random generator (xorshift), so that a seed gives the same game everywhere. */
#ifndef GAME_RNG_H
#define GAME_RNG_H

#include <stdint.h>

struct rng {
    uint32_t state; /* never 0 */
};

static inline uint32_t rng_next(struct rng *rng)
{
    uint32_t x = rng->state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return rng->state = x;
}

/* In [0, bound). */
static inline uint32_t rng_below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)(((uint64_t)rng_next(rng) * bound) >> 32);
}

/* In [lo, hi). */
static inline float rng_range(struct rng *rng, float lo, float hi)
{
    return lo + (hi - lo) * (float)(rng_next(rng) >> 8) / 16777216.0f;
}

#endif
