/* Collection of values with percentiles: exact while small, then a histogram with buckets at most
 * 1/256 wide (0.4 %). */
#ifndef PIANO_TOOL_LOAD_SAMPLES_H
#define PIANO_TOOL_LOAD_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

enum {
    SAMPLES_EXACT = 65536, /* values kept one by one */
    SAMPLES_STEPS = 256,   /* buckets per power of two */
    SAMPLES_OCTAVES = 57,  /* the first holds 0..511, the last ends at 2^63 */
};

struct samples {
    int64_t *exact; /* NULL once the histogram took over */
    size_t exact_cap;
    uint64_t count;
    uint64_t **octaves[2]; /* [negative]: lazily, each lazily SAMPLES_STEPS (first: twice) counts */
};

/* 0 or -ENOMEM. */
int samples_add(struct samples *s, int64_t value);
/* The same for COUNT times VALUE. */
int samples_add_many(struct samples *s, int64_t value, uint64_t count);
/* Moves the values of FROM to S; FROM is empty afterwards. */
int samples_merge(struct samples *s, struct samples *from);
/* Nearest rank: the value at index round(P * (count - 1)) of the sorted values; 0 when empty.
 * Sorts the exact values in place. */
int64_t samples_percentile(struct samples *s, double p);
/* The value at index RANK of the sorted values. Call `samples_percentile` first: it sorts. */
int64_t samples_rank(const struct samples *s, uint64_t rank);
void samples_release(struct samples *s);

#endif
