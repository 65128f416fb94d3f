/* What is read off a sum: intervals, lifetimes, churn.
 *
 * A sum of weights is normal enough for 1.96 standard deviations either way; its variance is the sum over
 * samples of w^2 (1-p), kept beside it by the program. Without a single sample there is no variance to go by:
 * then it is the Poisson process that says how much can hide from it. See docs/heap.md. */
#include "tool/load/rec.h"

#include <math.h>

static const double two_sided_95 = 1.959964; /* standard deviations */
static const double unseen_975 = 3.688879;   /* -ln 0.025: rates' worth of bytes without a sample */

enum { CHURN_BUCKET = 10 }; /* lived less than 2^10 us, about a millisecond */

void recording_sum_add(struct recording_sum *to, const struct recording_sum *more)
{
    to->samples += more->samples;
    to->freed_samples += more->freed_samples;
    to->allocated_bytes += more->allocated_bytes;
    to->allocated_objects += more->allocated_objects;
    to->allocated_variance += more->allocated_variance;
    to->freed_bytes += more->freed_bytes;
    to->freed_objects += more->freed_objects;
    to->freed_variance += more->freed_variance;
    to->live_bytes += more->live_bytes;
    to->live_objects += more->live_objects;
    to->live_variance += more->live_variance;
    to->peak_bytes += more->peak_bytes;
    to->peak_objects += more->peak_objects;
    for (int b = 0; b < PIANO_LIFETIMES; b++)
        to->lifetimes[b] += more->lifetimes[b];
    if (more->live_samples == 0)
        return;
    bool first = to->live_samples == 0;
    to->size_min = first || more->size_min < to->size_min ? more->size_min : to->size_min;
    to->size_max = first || more->size_max > to->size_max ? more->size_max : to->size_max;
    to->oldest_ns = first || more->oldest_ns < to->oldest_ns ? more->oldest_ns : to->oldest_ns;
    to->newest_ns = first || more->newest_ns > to->newest_ns ? more->newest_ns : to->newest_ns;
    to->live_samples += more->live_samples;
    to->live_seen_bytes += more->live_seen_bytes;
}

static void interval(const struct recording *rec, double value, double variance, double seen,
                     double *low, double *high)
{
    double half = two_sided_95 * sqrt(variance > 0 ? variance : 0);
    double floor_at = seen < value ? seen : value;
    *low = value - half > floor_at ? value - half : floor_at;
    *high = value + half;
    if (value <= 0 && rec->header.rate > 1)
        *high = unseen_975 * fmin((double)rec->header.rate, REC_REASON);
}

void recording_live_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high)
{
    interval(rec, sum->live_bytes, sum->live_variance, sum->live_seen_bytes, low, high);
}

void recording_allocated_interval(const struct recording *rec, const struct recording_sum *sum,
                                  double *low, double *high)
{
    interval(rec, sum->allocated_bytes, sum->allocated_variance, 0, low, high);
}

uint64_t recording_freed_within(const struct recording_sum *sum, unsigned bucket)
{
    uint64_t count = 0;
    for (unsigned b = 0; b <= bucket && b < PIANO_LIFETIMES; b++)
        count += sum->lifetimes[b];
    return count;
}

int64_t recording_median_life(const struct recording_sum *sum)
{
    uint64_t all = recording_freed_within(sum, PIANO_LIFETIMES - 1), before = 0;
    uint64_t middle = all - all / 2; /* the one that as many lived shorter as longer */
    for (unsigned b = 0; b < PIANO_LIFETIMES; b++) {
        uint64_t here = sum->lifetimes[b];
        if (here > 0 && before + here >= middle) {
            double part = (double)(middle - before) / (double)here;
            double low = b == 0 ? 0 : ldexp(1e3, (int)b - 1), high = ldexp(1e3, (int)b);
            return (int64_t)(low + part * (high - low));
        }
        before += here;
    }
    return -1;
}

double recording_churn(const struct recording_sum *sum)
{
    uint64_t all = recording_freed_within(sum, PIANO_LIFETIMES - 1);
    uint64_t soon = recording_freed_within(sum, CHURN_BUCKET);
    return all ? sum->freed_bytes * ((double)soon / (double)all) : 0;
}
