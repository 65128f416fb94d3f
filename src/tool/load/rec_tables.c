/* Tables of a recording: the sums of each stack, and the sampled blocks that are not freed.
 *
 * The program may be adding while this reads. A single sum is never torn, but two sums of one stack
 * may be from different moments, so a negative difference is taken as zero. */
#include "tool/load/rec.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Variances are of the order of squares, so their root is checked. */
static double variance(struct recording *rec, double value, uint64_t at)
{
    double root = isfinite(value) && value > 0 ? sqrt(value) : value;
    bool tiny = isfinite(value) && value < 0; /* squares have larger rounding errors than sums */
    root = rec_number(rec, tiny ? 0 : root, at);
    return root * root;
}

static double above_zero(double v)
{
    return v > 0 ? v : 0;
}

static void add_totals(struct rec_reader *r, uint32_t id, const struct piano__totals *t,
                       uint64_t at)
{
    struct recording *rec = r->rec;
    uint32_t stack = rec_stack_of(r, id);
    struct recording_sum s = {.allocated_bytes = rec_number(rec, t->allocated_bytes, at)};
    s.allocated_objects = rec_number(rec, t->allocated_objects, at);
    s.samples = rec_count(rec, t->samples, rec_samples_most(s.allocated_objects), at);
    s.freed_samples = rec_count(rec, t->freed, rec_samples_most((double)s.samples), at);
    s.allocated_variance = variance(rec, t->allocated_variance, at);
    s.freed_bytes = fmin(rec_number(rec, t->freed_bytes, at), s.allocated_bytes);
    s.freed_objects = fmin(rec_number(rec, t->freed_objects, at), s.allocated_objects);
    s.freed_variance = variance(rec, t->freed_variance, at);
    s.untracked_bytes = fmin(rec_number(rec, t->untracked_bytes, at), s.allocated_bytes);
    s.untracked_objects = fmin(rec_number(rec, t->untracked_objects, at), s.allocated_objects);
    double unknown_variance = variance(rec, t->untracked_variance, at);
    s.live_bytes = above_zero(s.allocated_bytes - s.freed_bytes - s.untracked_bytes);
    s.live_objects = above_zero(s.allocated_objects - s.freed_objects - s.untracked_objects);
    s.live_variance = above_zero(s.allocated_variance - s.freed_variance - unknown_variance);
    if (t->samples == t->freed + t->untracked || s.live_objects < 0.5) { /* rounding residue */
        s.live_bytes = s.live_objects = s.live_variance = 0;
    }
    bool seen = t->seen_epoch == rec->header.peak_epoch;
    s.peak_bytes = seen ? rec_number(rec, t->peak_bytes, at) : s.live_bytes;
    s.peak_objects = seen ? rec_number(rec, t->peak_objects, at) : s.live_objects;
    for (int b = 0; b < PIANO_LIFETIMES; b++)
        s.lifetimes[b] = t->lifetimes[b];
    recording_sum_add(&rec->stacks[stack].sum, &s);
    if (stack == 0 && id > 0)
        rec->orphans += s.samples;
    if (t->last_ns > rec->stacks[stack].last_ns)
        rec->stacks[stack].last_ns = t->last_ns;
    if (t->last_ns > rec->end_ns)
        rec->end_ns = t->last_ns;
}

static void read_totals(struct rec_reader *r, const struct rec_chunk *c)
{
    size_t count = c->there / sizeof(struct piano__totals);
    if (count > PIANO_TOTALS_PER_CHUNK)
        count = PIANO_TOTALS_PER_CHUNK;
    if (c->index > UINT32_MAX / PIANO_TOTALS_PER_CHUNK - 1) {
        rec_gap(r->rec, c->at + offsetof(struct piano__chunk, index), 0,
                "a part of a table that lies beyond its end");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct piano__totals t;
        memcpy(&t, c->payload + i * sizeof(t), sizeof(t));
        if (t.samples > 0)
            add_totals(r, (uint32_t)(c->index * PIANO_TOTALS_PER_CHUNK + i), &t,
                       c->at + sizeof(struct piano__chunk) + i * sizeof(t));
    }
}

static void add_live(struct rec_reader *r, const struct piano__live *l, uint64_t at)
{
    struct recording *rec = r->rec;
    double size = l->size < REC_MAX_SIZE ? (double)l->size : rec_number(rec, -1e9, at);
    uint64_t rate = rec_count(rec, l->rate, REC_MAX_RATE, at);
    uint64_t latest = rec->header.start_mono_ns + rec_longest_ns(rec);
    uint64_t birth_ns = rec_count(rec, l->birth_ns, latest, at);
    birth_ns = birth_ns ? birth_ns : rec->header.start_mono_ns;
    struct recording_sum s = {.live_samples = 1,
                              .live_seen_bytes = size,
                              .size_min = (uint64_t)size,
                              .size_max = (uint64_t)size,
                              .oldest_ns = birth_ns,
                              .newest_ns = birth_ns};
    if (rate > 0 && rate < rec->rate_low)
        rec->rate_low = rate;
    if (rate > rec->rate_high)
        rec->rate_high = rate;
    recording_sum_add(&rec->stacks[rec_stack_of(r, l->stack)].sum, &s);
}

static void read_live(struct rec_reader *r, const struct rec_chunk *c)
{
    size_t count = c->there / sizeof(struct piano__live);
    const volatile struct piano__live *all = (const volatile void *)c->payload;
    for (size_t i = 0; i < count && i < PIANO_LIVE_PER_CHUNK; i++) {
        struct piano__live l;
        if (rec_live_at(&all[i], &l))
            add_live(r, &l, c->at + sizeof(struct piano__chunk) + i * sizeof(l));
    }
}

int rec_read_tables(struct rec_reader *r)
{
    for (size_t i = 0; i < r->chunk_count; i++) {
        if (r->chunks[i].type == PIANO_CHUNK_TOTALS)
            read_totals(r, &r->chunks[i]);
        else if (r->chunks[i].type == PIANO_CHUNK_LIVE)
            read_live(r, &r->chunks[i]);
    }
    for (size_t i = 0; i < r->rec->stack_count; i++)
        rec_bound_peak(r->rec, &r->rec->stacks[i].sum);
    for (size_t i = 0; i < r->rec->stack_count; i++)
        recording_sum_add(&r->rec->total, &r->rec->stacks[i].sum);
    return 0;
}
