/* Values derived from a sum: intervals, lifetimes, churn.
 *
 * A sum of weights is close enough to normal for 1.96 standard deviations. Its variance is the sum
 * over samples of w^2 (1-p), which the program maintains. Without any sample there is no variance;
 * then the Poisson process gives how much can escape sampling. See docs/heap.md.
 *
 * If no variance was recorded, there is a bound: a sample of S bytes has w^2 (1-p) = w S /
 * (exp(S/rate) - 1), which is never more than w times the rate. */
#include "tool/load/rec.h"

#include <math.h>

static const double two_sided_95 = 1.959964; /* standard deviations */
static const double unseen_975 =
    3.688879; /* -ln 0.025: bytes without a sample, in units of the rate */

static const double rounding = 1e-9; /* of a sum: smaller differences are zero */

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
    to->untracked_bytes += more->untracked_bytes;
    to->untracked_objects += more->untracked_objects;
    to->live_bytes += more->live_bytes;
    to->live_objects += more->live_objects;
    to->live_variance += more->live_variance;
    to->peak_bytes += more->peak_bytes;
    to->peak_objects += more->peak_objects;
    to->peak_variance += more->peak_variance;
    for (int b = 0; b < PIANO_LIFETIMES; b++)
        to->lifetimes[b] += more->lifetimes[b];
    to->cpu_samples += more->cpu_samples;
    to->cpu_ns += more->cpu_ns;
    to->cpu_squares += more->cpu_squares;
    to->off_samples += more->off_samples;
    to->off_ns += more->off_ns;
    to->preempted_ns += more->preempted_ns;
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
    if (value <= 0 && rec->rate_high > 1)
        *high = unseen_975 * fmin((double)rec->rate_high, REC_REASON);
}

void recording_live_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high)
{
    interval(rec, sum->live_bytes, sum->live_variance, sum->live_seen_bytes, low, high);
    *high += sum->untracked_bytes; /* all of that may be live */
}

void recording_allocated_interval(const struct recording *rec, const struct recording_sum *sum,
                                  double *low, double *high)
{
    double live_low, live_high; /* what is live was allocated */
    recording_live_interval(rec, sum, &live_low, &live_high);
    interval(rec, sum->allocated_bytes, sum->allocated_variance, live_low, low, high);
}

void recording_peak_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high)
{
    interval(rec, sum->peak_bytes, sum->peak_variance, 0, low, high);
}

/* Older recordings have no variance of the peak. What was live then was allocated before. */
void recording_whole_peak_interval(const struct recording *rec, double *low, double *high)
{
    const struct piano__rec_header *h = &rec->header;
    double bound = fmin(h->allocated_variance, recording_rate_bound(rec) * h->peak_bytes);
    double variance = h->peak_variance > 0 ? h->peak_variance : bound;
    interval(rec, h->peak_bytes, variance > 0 ? variance : 0, 0, low, high);
    *high += h->untracked_bytes; /* all of that may have been live */
}

double recording_rate_bound(const struct recording *rec)
{
    if (rec->rate_low < rec->rate_high)
        return INFINITY;
    return rec->rate_high > 1 ? (double)rec->rate_high : 0;
}

/* What was live at the peak is a part of all that was allocated. If nothing has changed since, it
 * is what is live now. */
void rec_bound_peak(const struct recording *rec, struct recording_sum *sum)
{
    double same = fabs(sum->peak_bytes - sum->live_bytes);
    if (same <= sum->peak_bytes * rounding)
        sum->peak_variance = sum->live_variance;
    else
        sum->peak_variance =
            fmin(sum->allocated_variance, recording_rate_bound(rec) * sum->peak_bytes);
    if (!(sum->peak_variance > 0)) /* infinity times zero must be zero too */
        sum->peak_variance = 0;
}

/* Blocks present at both moments are in both sums with the same weight, so only what came and what
 * went is uncertain: var = V(came) + V(went), where V(to) - V(from) = V(came) - V(went). What came
 * is at most what was allocated in between, and what went follows from it. */
double recording_change_variance(const struct recording *rec, const struct recording_entry *from,
                                 const struct recording_entry *to)
{
    double rate = recording_rate_bound(rec), tiny = to->allocated_bytes * rounding;
    if (from->live_variance > rate * from->live_bytes + tiny * rate ||
        to->live_variance > rate * to->live_bytes + tiny * rate)
        rate = INFINITY; /* the rate was changed */
    double change = to->live_variance - from->live_variance;
    double came = to->allocated_bytes - from->allocated_bytes; /* bytes, upper bound */
    double went = came - (to->live_bytes - from->live_bytes);  /* likewise */
    double came_variance = came > tiny ? fmin(to->live_variance, rate * came) : 0;
    double went_variance = went > tiny ? fmin(from->live_variance, rate * went) : 0;
    double least = fmin(came_variance, went_variance + change);
    return fmax(2 * least - change, fabs(change));
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
    uint64_t middle = all - all / 2; /* median rank */
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
