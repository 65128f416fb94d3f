/* Validates the numbers of the header. A recording may be damaged. A count that the file cannot
 * hold, or that contradicts another one, is counted as bad and becomes 0, so that no report shows
 * it.
 *
 * Some counts are bounded by the file: CPU samples and events are stored one by one. Heap samples
 * are summed, but each stands for at least one object, so there are at most as many as objects. The
 * rest count occurrences and are bounded by what a program can do in its lifetime. */
#include "tool/load/rec.h"

#include <math.h>
#include <stddef.h>

#include "common/allocators.h"

static const uint64_t MOST_OFTEN = (uint64_t)1 << 43;    /* a million times a second for 100 days */
static const uint64_t MOST_RECYCLED = (uint64_t)1 << 30; /* chunks of 64 KB */
static const uint64_t MOST_HZ = 1000000000;
static const uint64_t MOST_NS = (uint64_t)1 << 60; /* of CPU time: 36 years */
static const uint64_t MOST_ERRNO = 4095;
static const double rounding = 1e-6; /* of sums, from adding up */
enum { RACE = 1024, LEAST_SAMPLE = sizeof(struct piano__sample) };

uint64_t rec_count(struct recording *rec, uint64_t value, uint64_t most, uint64_t at)
{
    if (value <= most)
        return value;
    if (rec->bad_numbers++ == 0)
        rec->bad_number_at = at;
    return 0;
}

/* The program may be counting meanwhile: one sum may be some samples ahead of another. */
uint64_t rec_samples_most(double objects)
{
    return (uint64_t)(objects * (1 + rounding)) + RACE;
}

struct bound {
    uint64_t *count;
    uint64_t most;
};

static void bound_all(struct recording *rec, const struct bound *bounds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        *bounds[i].count = rec_count(rec, *bounds[i].count, bounds[i].most,
                                     (uint64_t)((char *)bounds[i].count - (char *)&rec->header));
}

static void clean_heap_counts(struct recording *rec)
{
    struct piano__heap_stats *s = &rec->header.stats;
    s->samples = rec_count(rec, s->samples, rec_samples_most(rec->header.allocated_objects),
                           offsetof(struct piano__rec_header, stats.samples));
    const uint64_t samples = s->samples + RACE;
    const struct bound bounds[] = {
        {&s->freed, samples},
        {&s->stacks, rec->map_len / sizeof(uint64_t)},
        {&s->collisions, MOST_OFTEN},
        {&s->filter_passes, MOST_OFTEN},
        {&s->filter_misses, MOST_OFTEN},
        {&s->stale, samples},
        {&s->dropped_live, samples},
        {&s->dropped_stacks, samples},
        {&s->dropped_memory, MOST_OFTEN},
        {&s->dropped_busy, MOST_OFTEN},
        {&s->walked, MOST_OFTEN},
        {&s->walked_frames, MOST_OFTEN},
        {&s->walked_lost, MOST_OFTEN},
        {&s->walked_full, MOST_OFTEN},
        {&s->walked_by_fp, MOST_OFTEN},
        {&s->threads, MOST_OFTEN},
        {&s->map_calls, MOST_OFTEN},
        {&s->map_partial, MOST_OFTEN},
    };
    bound_all(rec, bounds, sizeof(bounds) / sizeof(*bounds));
    if (s->own_state > PIANO_OWN_HIDDEN || s->own_kind >= PIANO_OWN_KINDS)
        s->own_state = PIANO_OWN_UNKNOWN;
}

static void clean_trace_counts(struct recording *rec)
{
    struct piano__rec_header *h = &rec->header;
    struct piano__trace *t = &h->trace;
    const struct bound first[] = {{&h->samples_given_up, MOST_OFTEN},
                                  {&t->recycled, MOST_RECYCLED}};
    bound_all(rec, first, sizeof(first) / sizeof(*first));
    const uint64_t recycled = t->recycled * PIANO_REC_CHUNK_BYTES;
    const uint64_t room = rec->map_len + recycled;
    const struct bound second[] = {
        {&t->events, room},
        {&t->samples, rec->map_len / LEAST_SAMPLE + h->samples_given_up + RACE},
        {&t->samples_lost, MOST_OFTEN},
        {&t->switches, MOST_OFTEN},
        {&t->dropped_memory, MOST_OFTEN},
        {&t->dropped_busy, MOST_OFTEN},
        {&t->dropped_names, MOST_OFTEN},
        {&t->threads_missed, MOST_OFTEN},
        {&t->sampled_ns, MOST_NS},
        {&t->kernel_ns, MOST_NS},
        {&t->cpu_error, MOST_ERRNO},
        {&t->overwritten, recycled},
        {&t->definitions_in_ring, MOST_OFTEN},
        {&t->ring_chunks, PIANO_REC_MAX_CHUNKS},
        {&t->cpu_hz, MOST_HZ},
    };
    bound_all(rec, second, sizeof(second) / sizeof(*second));
    const struct bound last[] = {{&t->samples_unwound, t->samples + RACE}};
    bound_all(rec, last, 1);
    t->samples_unwound = t->samples_unwound < t->samples ? t->samples_unwound : t->samples;
}

static void clean_end(struct recording *rec)
{
    struct piano__rec_header *h = &rec->header;
    uint64_t latest = h->start_mono_ns + rec_longest_ns(rec);
    h->ended_ns = rec_count(rec, h->ended_ns, latest, offsetof(struct piano__rec_header, ended_ns));
    h->process_cpu_ns = rec_count(rec, h->process_cpu_ns, MOST_NS,
                                  offsetof(struct piano__rec_header, process_cpu_ns));
    h->fired = rec_count(rec, h->fired, MOST_OFTEN, offsetof(struct piano__rec_header, fired));
    if (h->ended_ns < h->start_mono_ns)
        h->ended_ns = 0;
    for (size_t i = 0; i < sizeof(h->fires) / sizeof(*h->fires); i++)
        h->fires[i].what[sizeof(h->fires[i].what) - 1] = '\0';
}

void rec_clean_header(struct recording *rec)
{
    struct piano__rec_header *h = &rec->header;
    double *const sums[] = {&h->live_bytes,         &h->live_objects,  &h->allocated_bytes,
                            &h->allocated_objects,  &h->peak_bytes,    &h->peak_objects,
                            &h->allocated_variance, &h->live_variance, &h->peak_variance};
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        bool squared = i >= 6; /* then the limit is squared too */
        double v = squared ? sqrt(fmax(*sums[i], 0)) : *sums[i];
        v = rec_number(rec, v, (uint64_t)((char *)sums[i] - (char *)h));
        *sums[i] = squared ? v * v : v;
    }
    clean_heap_counts(rec);
    clean_trace_counts(rec);
    clean_end(rec);
    h->program[PIANO_REC_PATH - 1] = '\0';
    h->command[PIANO_REC_PATH - 1] = '\0';
    h->rate = rec_count(rec, h->rate, REC_MAX_RATE, offsetof(struct piano__rec_header, rate));
    if (h->rate == 0)
        h->rate = 1;
    rec->rate_low = rec->rate_high = h->rate;
}

/* Longest possible time in the recording; without a known end, as long as a program can run. */
uint64_t rec_longest_ns(const struct recording *rec)
{
    static const uint64_t SLACK_NS = 60000000000u, LONGEST_NS = (uint64_t)1 << 58;
    const struct piano__rec_header *h = &rec->header;
    bool known =
        h->end_mono_ns > h->start_mono_ns && h->end_mono_ns - h->start_mono_ns < LONGEST_NS;
    return known ? h->end_mono_ns - h->start_mono_ns + SLACK_NS : LONGEST_NS;
}
