/* Weights are doubles, added by CAS.
 *
 * THE PEAK. The live bytes of each stack at the peak are known without copying all stacks. A new
 * peak only increments `peak_epoch`. The first change of a stack after that saves its live bytes
 * for that epoch. A stack that has not changed since still has them. When several threads take
 * samples at the same time, a stack may be off by one sample. */
#include "target/heap/sums.h"

#include <stdbool.h>
#include <string.h>

#include "target/heap/poisson.h"
#include "target/heap/stacks.h"

static double load(const double *at)
{
    double value;
    __atomic_load(at, &value, __ATOMIC_RELAXED);
    return value;
}

static double add(double *at, double value)
{
    double old = load(at);
    double fresh;
    do
        fresh = old + value;
    while (!__atomic_compare_exchange(at, &old, &fresh, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return fresh;
}

static void raise_peak(struct piano__rec_header *h, double live, uint64_t now_ns)
{
    double peak = load(&h->peak_bytes);
    while (live > peak) {
        if (!__atomic_compare_exchange(&h->peak_bytes, &peak, &live, true, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED))
            continue;
        double objects = load(&h->live_objects);
        double variance = load(&h->live_variance);
        __atomic_store(&h->peak_objects, &objects, __ATOMIC_RELAXED);
        __atomic_store(&h->peak_variance, &variance, __ATOMIC_RELAXED);
        __atomic_store_n(&h->peak_ns, now_ns, __ATOMIC_RELAXED);
        __atomic_fetch_add(&h->peak_epoch, 1, __ATOMIC_RELAXED);
        return;
    }
}

/* Called before T changes. Saves the live bytes of T at the last peak, unless T has changed since
 * and saved them then. */
static void remember_peak(const struct piano__rec_header *h, struct piano__totals *t)
{
    uint64_t epoch = __atomic_load_n(&h->peak_epoch, __ATOMIC_RELAXED);
    uint64_t seen = __atomic_load_n(&t->seen_epoch, __ATOMIC_RELAXED);
    if (seen == epoch || !__atomic_compare_exchange_n(&t->seen_epoch, &seen, epoch, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    double bytes = load(&t->allocated_bytes) - load(&t->freed_bytes) - load(&t->untracked_bytes);
    double objects =
        load(&t->allocated_objects) - load(&t->freed_objects) - load(&t->untracked_objects);
    __atomic_store(&t->peak_bytes, &bytes, __ATOMIC_RELAXED);
    __atomic_store(&t->peak_objects, &objects, __ATOMIC_RELAXED);
}

void piano__sums_allocated(struct piano__rec_header *header, const struct piano__block *block)
{
    struct piano__weight w = piano__poisson_weight(block->size, block->rate);
    struct piano__totals *t = piano__stacks_totals(block->stack);
    remember_peak(header, t);
    add(&t->allocated_bytes, w.bytes);
    add(&t->allocated_objects, w.objects);
    add(&t->allocated_variance, w.variance);
    __atomic_store_n(&t->last_ns, block->birth_ns, __ATOMIC_RELAXED);
    /* Pairs with the acquire in any() of common/snapshot.c: the sums of the first sample are
     * there. */
    __atomic_fetch_add(&t->samples, 1, __ATOMIC_RELEASE);

    add(&header->allocated_bytes, w.bytes);
    add(&header->allocated_objects, w.objects);
    add(&header->allocated_variance, w.variance);
    add(&header->live_variance, w.variance);
    add(&header->live_objects, w.objects);
    raise_peak(header, add(&header->live_bytes, w.bytes), block->birth_ns);
    __atomic_fetch_add(&header->stats.samples, 1, __ATOMIC_RELAXED);
}

/* Bucket b: less than 2^b microseconds. */
static unsigned lifetime_bucket(uint64_t ns)
{
    unsigned bucket = 0;
    for (uint64_t us = ns / 1000; us > 0 && bucket < PIANO_LIFETIMES - 1; us >>= 1)
        bucket++;
    return bucket;
}

void piano__sums_freed(struct piano__rec_header *header, const struct piano__block *block,
                       uint64_t now_ns)
{
    struct piano__weight w = piano__poisson_weight(block->size, block->rate);
    struct piano__totals *t = piano__stacks_totals(block->stack);
    remember_peak(header, t);
    add(&t->freed_bytes, w.bytes);
    add(&t->freed_objects, w.objects);
    add(&t->freed_variance, w.variance);
    __atomic_fetch_add(&t->freed, 1, __ATOMIC_RELAXED);
    unsigned bucket = lifetime_bucket(now_ns > block->birth_ns ? now_ns - block->birth_ns : 0);
    __atomic_fetch_add(&t->lifetimes[bucket], 1, __ATOMIC_RELAXED);

    add(&header->live_variance, -w.variance);
    add(&header->live_objects, -w.objects);
    add(&header->live_bytes, -w.bytes);
    __atomic_fetch_add(&header->stats.freed, 1, __ATOMIC_RELAXED);
}

void piano__sums_untracked(struct piano__rec_header *header, const struct piano__block *block)
{
    struct piano__weight w = piano__poisson_weight(block->size, block->rate);
    struct piano__totals *t = piano__stacks_totals(block->stack);
    remember_peak(header, t);
    add(&t->untracked_bytes, w.bytes);
    add(&t->untracked_objects, w.objects);
    add(&t->untracked_variance, w.variance);
    __atomic_fetch_add(&t->untracked, 1, __ATOMIC_RELAXED);

    add(&header->untracked_bytes, w.bytes);
    add(&header->live_variance, -w.variance);
    add(&header->live_objects, -w.objects);
    add(&header->live_bytes, -w.bytes);
}
