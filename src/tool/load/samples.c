/* Percentiles in bounded memory.
 *
 * Up to SAMPLES_EXACT values are kept as they are (512 KB at most). The next one turns them into a
 * log-linear histogram: exact below 512, then SAMPLES_STEPS equal steps in each power of two, so a
 * bucket is never wider than 1/256 of its values and its middle is off by 0.2 % at most. Octaves
 * are allocated when first touched; a function whose times span a factor of 100 takes 14 KB.
 * Negative values (self time after correction may be a few ns below zero) have octaves of their
 * own. One owner at a time; workers fill bags of their own and merge them. */
#include "tool/load/samples.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

/* Octave 0 is 0..511 in steps of one; octave k > 0 is 2^(k+8) .. 2^(k+9)-1 in 256 steps. */
static void place(uint64_t value, unsigned *octave, unsigned *step)
{
    if (value < 2 * SAMPLES_STEPS) {
        *octave = 0;
        *step = (unsigned)value;
        return;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(value);
    *octave = top - 8;
    *step = (unsigned)(value >> (top - 8)) - SAMPLES_STEPS;
}

static uint64_t middle(unsigned octave, unsigned step)
{
    if (octave == 0)
        return step;
    uint64_t width = (uint64_t)1 << octave;
    return ((uint64_t)step + SAMPLES_STEPS) * width + width / 2;
}

static size_t octave_len(unsigned octave)
{
    return octave == 0 ? 2 * SAMPLES_STEPS : SAMPLES_STEPS;
}

static uint64_t *octave_get(struct samples *s, bool negative, unsigned octave)
{
    uint64_t ***table = &s->octaves[negative];
    if (!*table)
        *table = calloc(SAMPLES_OCTAVES, sizeof(**table));
    if (!*table)
        return NULL;
    if (!(*table)[octave])
        (*table)[octave] = calloc(octave_len(octave), sizeof(uint64_t));
    return (*table)[octave];
}

static int histogram_add(struct samples *s, int64_t value, uint64_t count)
{
    unsigned octave, step;
    bool negative = value < 0;
    place(negative ? 0 - (uint64_t)value : (uint64_t)value, &octave, &step);
    if (octave >= SAMPLES_OCTAVES) { /* only -2^63, which no reader here produces */
        octave = SAMPLES_OCTAVES - 1;
        step = SAMPLES_STEPS - 1;
    }
    uint64_t *counts = octave_get(s, negative, octave);
    if (!counts)
        return -ENOMEM;
    counts[step] += count;
    return 0;
}

static bool is_histogram(const struct samples *s)
{
    return s->octaves[0] || s->octaves[1];
}

static int to_histogram(struct samples *s)
{
    for (uint64_t i = 0; s->exact && i < s->count; i++)
        if (histogram_add(s, s->exact[i], 1))
            return -ENOMEM;
    free(s->exact);
    s->exact = NULL;
    s->exact_cap = 0;
    return 0;
}

int samples_add(struct samples *s, int64_t value)
{
    int err = 0;
    if (is_histogram(s)) {
        err = histogram_add(s, value, 1);
    } else if (s->count >= SAMPLES_EXACT) {
        err = to_histogram(s);
        if (err == 0)
            err = histogram_add(s, value, 1);
    } else {
        err = VEC_ROOM(s->exact, s->count, s->exact_cap);
        if (err == 0)
            s->exact[s->count] = value;
    }
    if (err == 0)
        s->count++;
    return err;
}

int samples_add_many(struct samples *s, int64_t value, uint64_t count)
{
    int err = 0;
    if (!is_histogram(s) && count <= SAMPLES_EXACT - s->count) {
        for (uint64_t i = 0; i < count && err == 0; i++)
            err = samples_add(s, value);
        return err;
    }
    if (count == 0 || s->count + count < count)
        return 0; /* more than possible: a corrupt file */
    if (!is_histogram(s))
        err = to_histogram(s);
    if (err == 0)
        err = histogram_add(s, value, count);
    s->count += err == 0 ? count : 0;
    return err;
}

static int merge_histograms(struct samples *s, const struct samples *from)
{
    for (int sign = 0; sign < 2; sign++) {
        for (unsigned o = 0; from->octaves[sign] && o < SAMPLES_OCTAVES; o++) {
            const uint64_t *theirs = from->octaves[sign][o];
            if (!theirs)
                continue;
            uint64_t *ours = octave_get(s, sign == 1, o);
            if (!ours)
                return -ENOMEM;
            for (size_t i = 0; i < octave_len(o); i++)
                ours[i] += theirs[i];
        }
    }
    return 0;
}

int samples_merge(struct samples *s, struct samples *from)
{
    int err = 0;
    if (is_histogram(from)) {
        if (!is_histogram(s))
            err = to_histogram(s);
        if (err == 0)
            err = merge_histograms(s, from);
        s->count += from->count;
    } else {
        for (uint64_t i = 0; err == 0 && i < from->count; i++)
            err = samples_add(s, from->exact[i]);
    }
    samples_release(from);
    return err;
}

/* Returns the value of rank RANK by walking the buckets upwards. */
static int64_t histogram_rank(const struct samples *s, uint64_t rank)
{
    uint64_t seen = 0;
    for (unsigned o = SAMPLES_OCTAVES; s->octaves[1] && o-- > 0;)
        for (size_t i = octave_len(o); s->octaves[1][o] && i-- > 0;) {
            seen += s->octaves[1][o][i];
            if (seen > rank)
                return -(int64_t)middle(o, (unsigned)i);
        }
    for (unsigned o = 0; s->octaves[0] && o < SAMPLES_OCTAVES; o++)
        for (size_t i = 0; s->octaves[0][o] && i < octave_len(o); i++) {
            seen += s->octaves[0][o][i];
            if (seen > rank)
                return (int64_t)middle(o, (unsigned)i);
        }
    return 0;
}

int64_t samples_rank(const struct samples *s, uint64_t rank)
{
    if (rank >= s->count)
        return 0;
    return is_histogram(s) ? histogram_rank(s, rank) : s->exact[rank];
}

int64_t samples_percentile(struct samples *s, double p)
{
    if (s->count == 0)
        return 0;
    uint64_t rank = (uint64_t)(p * (double)(s->count - 1) + 0.5);
    if (!is_histogram(s))
        qsort(s->exact, s->count, sizeof(*s->exact), order_i64);
    return samples_rank(s, rank);
}

void samples_release(struct samples *s)
{
    free(s->exact);
    for (int sign = 0; sign < 2; sign++) {
        for (unsigned o = 0; s->octaves[sign] && o < SAMPLES_OCTAVES; o++)
            free(s->octaves[sign][o]);
        free(s->octaves[sign]);
    }
    memset(s, 0, sizeof(*s));
}
