/* Bucket numbering of the wall-time histograms in run files: exact below 64, then 32 equal steps
 * per power of two. So a bucket is never wider than 1/32 of its values. The runtime writes these
 * numbers and the tool reads them: changing the numbering changes the file format. */
#ifndef PIANO_COMMON_HIST_H
#define PIANO_COMMON_HIST_H

#include <stdint.h>

enum { PIANO_HIST_STEPS = 32, PIANO_HIST_BUCKETS = 60 * 32 };

static inline unsigned piano__hist_bucket(uint64_t value)
{
    if (value < 2 * PIANO_HIST_STEPS)
        return (unsigned)value;
    unsigned top = 63u - (unsigned)__builtin_clzll(value); /* >= 6 */
    return (top - 5) * PIANO_HIST_STEPS + (unsigned)(value >> (top - 5));
}

/* The smallest value in BUCKET. */
static inline uint64_t piano__hist_floor(unsigned bucket)
{
    if (bucket < 2 * PIANO_HIST_STEPS)
        return bucket;
    unsigned shift = bucket / PIANO_HIST_STEPS - 1;
    return (uint64_t)(bucket % PIANO_HIST_STEPS + PIANO_HIST_STEPS) << shift;
}

#endif
