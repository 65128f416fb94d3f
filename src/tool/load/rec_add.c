/* What another process adds to a recording: the counts of its header, and its events. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/own.h"
#include "tool/util/vec.h"

/* ---- the header ---- */

static void add_heap(struct piano__rec_header *to, const struct piano__rec_header *from)
{
    struct piano__heap_stats *s = &to->stats;
    const struct piano__heap_stats *f = &from->stats;
    uint64_t *const counts[] = {
        &s->samples,       &s->freed,   &s->stacks,        &s->collisions,     &s->filter_passes,
        &s->filter_misses, &s->stale,   &s->dropped_live,  &s->dropped_stacks, &s->dropped_memory,
        &s->dropped_busy,  &s->walked,  &s->walked_frames, &s->walked_lost,    &s->walked_full,
        &s->walked_by_fp,  &s->threads, &s->map_calls,     &s->map_partial};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *counts[i] += *(const uint64_t *)((const char *)f + ((char *)counts[i] - (char *)s));
    if (f->walked_least && (s->walked_least == 0 || f->walked_least < s->walked_least))
        s->walked_least = f->walked_least;
    if (own_is_hidden(to)) { /* some figures are known now */
        s->own_state = f->own_state;
        s->own_kind = f->own_kind;
        s->own_reason = f->own_reason;
    }
    double *const sums[] = {&to->live_bytes,        &to->live_objects,       &to->allocated_bytes,
                            &to->allocated_objects, &to->allocated_variance, &to->live_variance,
                            &to->untracked_bytes};
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
        *sums[i] += *(const double *)((const char *)from + ((char *)sums[i] - (char *)to));
}

/* The kernel's CPU time of the program counts its children too if they were sampled from outside. If
 * each process sampled itself, the time of all must be known. */
static void add_trace(struct piano__trace *to, const struct piano__trace *from)
{
    uint64_t *const counts[] = {&to->events,
                                &to->dropped_memory,
                                &to->dropped_busy,
                                &to->dropped_names,
                                &to->recycled,
                                &to->samples,
                                &to->samples_lost,
                                &to->samples_unwound,
                                &to->switches,
                                &to->threads_missed,
                                &to->ring_chunks,
                                &to->overwritten,
                                &to->definitions_in_ring,
                                &to->sampled_ns};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *counts[i] += *(const uint64_t *)((const char *)from + ((char *)counts[i] - (char *)to));
    if (from->cpu_source == PIANO_CPU_TIMERS && from->samples > 0)
        to->kernel_ns =
            to->kernel_ns > 0 && from->kernel_ns > 0 ? to->kernel_ns + from->kernel_ns : 0;
    if (to->cpu_source == PIANO_CPU_NONE) {
        to->cpu_source = from->cpu_source;
        to->cpu_hz = from->cpu_hz;
    }
}

void rec_add_header(struct piano__rec_header *to, const struct piano__rec_header *from)
{
    if (from->flags & PIANO_REC_HAS_HEAP && !own_is_hidden(from))
        add_heap(to, from);
    add_trace(&to->trace, &from->trace);
    to->samples_given_up += from->samples_given_up;
}

void rec_recount_samples(struct recording *rec)
{
    struct piano__trace *t = &rec->header.trace;
    t->samples = t->sampled_ns = t->switches = t->samples_unwound = 0;
    for (size_t i = 0; i < rec->sample_count; i++) {
        const struct recording_sample *s = &rec->samples[i];
        bool is_cpu = s->kind == PIANO_SAMPLE_CPU;
        t->samples += is_cpu;
        t->sampled_ns += is_cpu ? s->value : 0;
        t->switches += !is_cpu;
        t->samples_unwound +=
            is_cpu && s->stack > 0 &&
            !(rec->stacks[s->stack].flags & (PIANO_STACK_LOST | PIANO_STACK_FULL));
    }
}

/* ---- events ---- */

static void add_ends(struct recording_events *to, const struct recording_events *from)
{
    if (from->segment_count == 0)
        return;
    bool is_first = to->segment_count == 0;
    to->first_ns = is_first || from->first_ns < to->first_ns ? from->first_ns : to->first_ns;
    to->last_ns = from->last_ns > to->last_ns ? from->last_ns : to->last_ns;
    to->complete_ns = from->complete_ns > to->complete_ns ? from->complete_ns : to->complete_ns;
}

int rec_add_events(struct recording *rec, const struct recording_part *part, uint32_t number)
{
    struct recording_events *to = &rec->events;
    const struct recording_events *from = &part->rec.events;
    uint32_t tracks = (uint32_t)to->track_count;
    size_t all = to->segment_count + from->segment_count;
    struct recording_segment *segments = realloc(to->segments, (all + 1) * sizeof(*segments));
    if (!segments)
        return -ENOMEM;
    to->segments = segments;
    for (size_t i = 0; i < from->track_count; i++) {
        if (VEC_DOUBLE(to->tracks, to->track_count) != 0)
            return -ENOMEM;
        struct recording_track *t = &to->tracks[to->track_count++];
        *t = from->tracks[i];
        t->part = number;
        t->first += to->segment_count;
    }
    for (size_t i = 0; i < from->segment_count; i++) {
        segments[to->segment_count + i] = from->segments[i];
        segments[to->segment_count + i].track += tracks;
    }
    add_ends(to, from);
    to->segment_count = all;
    to->count += from->count;
    to->unknown += from->unknown;
    to->bad += from->bad;
    to->clock.rough |= from->clock.rough;
    return 0;
}
