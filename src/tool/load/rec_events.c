/* Events of a recording: finds those of each thread.
 *
 * One pass over all events, which stores none of them. It follows the thread switches in a chunk,
 * counts events, and records where each run of events of one thread begins (a segment). Chunks are
 * sorted by `index`, which grows with every use of a chunk, so the segments of a thread are in the
 * order of its events; those of its definitions are in an order of their own. A chunk whose
 * predecessor is missing begins after a gap. Unreadable data ends its chunk there and is reported
 * by its offset. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

/* ---- which thread ---- */

struct scan {
    struct rec_reader *r;
    struct map known; /* from tid to track */
    struct recording_pair *pairs;
    size_t pair_count;
    const struct rec_chunk *ring; /* the chunks of the ring, by index */
    size_t ring_count;
    bool full; /* no more segments; already reported */
};

static int compare_index(const void *key, const void *chunk)
{
    return ORDER(*(const uint64_t *)key, ((const struct rec_chunk *)chunk)->index);
}

/* Whether events of the first thread in C are missing before it. */
static bool is_after_gap(const struct scan *s, const struct rec_chunk *c)
{
    uint64_t before = c->previous - 1;
    if (c->previous == 0 || c->type != PIANO_CHUNK_EVENTS)
        return false;
    return c->previous == PIANO_EVENTS_GAP ||
           !bsearch(&before, s->ring, s->ring_count, sizeof(*s->ring), compare_index);
}

/* Returns the track of TID, or negative errno. */
static int64_t track_of(struct scan *s, uint32_t tid)
{
    struct recording_events *events = &s->r->rec->events;
    uint32_t known = map_find(&s->known, tid);
    if (known != MAP_NONE)
        return known;
    if (VEC_DOUBLE(events->tracks, events->track_count) != 0 ||
        map_put(&s->known, tid, (uint32_t)events->track_count) != 0)
        return -ENOMEM;
    events->tracks[events->track_count] = (struct recording_track){.tid = tid};
    return (int64_t)events->track_count++;
}

/* Begins a segment of TID at AT in chunk C, after TICKS. 0 or negative errno. */
static int begin_segment(struct scan *s, const struct rec_chunk *c, uint32_t tid, const char *at,
                         uint64_t ticks)
{
    struct recording_events *events = &s->r->rec->events;
    int64_t track = track_of(s, (uint32_t)tid);
    if (track < 0)
        return (int)track;
    if (VEC_DOUBLE(events->segments, events->segment_count) != 0)
        return -ENOMEM;
    bool is_first = at == c->payload + sizeof(struct piano__events_head);
    events->segments[events->segment_count++] =
        (struct recording_segment){.from = at,
                                   .to = at,
                                   .ticks = ticks,
                                   .track = (uint32_t)track,
                                   .defines = c->type == PIANO_CHUNK_DEFINITIONS,
                                   .after_gap = is_first && is_after_gap(s, c)};
    return 0;
}

/* ---- one chunk ---- */

static void count_event(struct recording_events *events, struct recording_track *t,
                        const struct rec_event *e)
{
    events->count++;
    events->bad += e->bad;
    t->events++;
    events->unknown += e->event.code == PIANO_EVENT_UNKNOWN;
    t->polls += e->event.code == PIANO_EVENT_POLL_BEGIN;
    if (e->event.code == PIANO_EVENT_PARK)
        t->parks[e->event.park.kind < PIANO_PARKS ? e->event.park.kind : PIANO_PARKS]++;
}

static int scan_events(struct scan *s, const struct rec_chunk *c,
                       const struct piano__events_head *head)
{
    struct recording_events *events = &s->r->rec->events;
    const char *at = c->payload + sizeof(*head), *end = c->payload + c->used;
    struct rec_event e;
    uint64_t ticks = head->ticks;
    int err = begin_segment(s, c, (uint32_t)head->tid, at, ticks);
    while (err == 0 && at < end) {
        size_t bytes = rec_event_at(at, end, &e);
        if (bytes == 0 || e.ticks > UINT64_MAX / 2 - ticks / 2) {
            rec_gap(s->r->rec, c->at + sizeof(struct piano__chunk) + (uint64_t)(at - c->payload), 0,
                    "an event that cannot be read: the rest of its chunk is left out");
            break;
        }
        at += bytes;
        ticks += e.ticks;
        struct recording_segment *now = &events->segments[events->segment_count - 1];
        count_event(events, &events->tracks[now->track], &e);
        now->to = at;
        if (e.event.code == PIANO_EVENT_THREAD && events->segment_count < REC_MAX_SEGMENTS)
            err = begin_segment(s, c, e.event.thread.tid, at, ticks);
        else if (e.event.code == PIANO_EVENT_THREAD)
            s->full = true;
        if (s->full)
            break;
    }
    return err;
}

static int scan_chunk(struct scan *s, const struct rec_chunk *c)
{
    struct recording *rec = s->r->rec;
    struct piano__events_head head;
    if (c->used == 0)
        return 0;
    if (c->used < sizeof(head)) {
        rec_gap(rec, c->at + sizeof(struct piano__chunk), 0, "events without a head");
        return 0;
    }
    memcpy(&head, c->payload, sizeof(head));
    if (VEC_DOUBLE(s->pairs, s->pair_count) != 0)
        return -ENOMEM;
    if (head.mono_ns > 0) /* else follow.c made the head */
        s->pairs[s->pair_count++] = (struct recording_pair){head.ticks, head.mono_ns};
    say_progress_again();
    return scan_events(s, c, &head);
}

/* ---- all ---- */

/* Groups segments by thread, in the order they were found: definitions come last. */
static int sort_segments(struct recording_events *events)
{
    struct recording_segment *sorted = calloc(events->segment_count + 1, sizeof(*sorted));
    size_t at = 0;
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < events->segment_count; i++)
        events->tracks[events->segments[i].track].segments++;
    for (size_t i = 0; i < events->track_count; i++) {
        events->tracks[i].first = at;
        at += events->tracks[i].segments;
        events->tracks[i].segments = 0;
    }
    for (size_t i = 0; i < events->segment_count; i++) {
        struct recording_track *t = &events->tracks[events->segments[i].track];
        sorted[t->first + t->segments++] = events->segments[i];
        t->definitions += events->segments[i].defines;
    }
    free(events->segments);
    events->segments = sorted;
    return 0;
}

static bool is_same_row(const struct recording_segment *a, const struct recording_segment *b)
{
    return a->track == b->track && a->defines == b->defines;
}

/* Finds the first and last event. Segments of a thread are in order, so only its ends are read. */
static void find_ends(struct recording_events *events)
{
    events->first_ns = UINT64_MAX;
    for (size_t i = 0; i < events->segment_count; i++) {
        const struct recording_segment *g = &events->segments[i];
        struct rec_event e;
        size_t bytes, pair = 0;
        uint64_t ticks = g->ticks;
        bool last = i + 1 == events->segment_count || !is_same_row(g, g + 1);
        bool first = i == 0 || !is_same_row(g, g - 1);
        if (!first && !last)
            continue;
        for (const char *at = g->from;
             at < g->to && (bytes = rec_event_at(at, g->to, &e)) > 0 && (last || at == g->from);
             at += bytes)
            ticks += e.ticks;
        uint64_t ns = recording_time(&events->clock, ticks, &pair);
        events->last_ns = last && ns > events->last_ns ? ns : events->last_ns;
        ns = recording_time(&events->clock, g->ticks, &pair);
        events->first_ns = first && ns < events->first_ns ? ns : events->first_ns;
    }
}

/* Finds the time since when no event was overwritten. */
static void find_complete(struct recording *rec)
{
    const struct piano__trace *t = &rec->header.trace;
    struct recording_events *events = &rec->events;
    if (t->recycled == 0)
        return;
    events->complete_ns = UINT64_MAX; /* an old recording does not say */
    if (t->overwritten_ns > 0)
        events->complete_ns =
            t->overwritten_ns < events->last_ns ? t->overwritten_ns : events->last_ns;
}

static void find_ring(struct scan *s)
{
    const struct rec_chunk *all = s->r->chunks;
    size_t first = 0;
    while (first < s->r->chunk_count && all[first].type < PIANO_CHUNK_EVENTS)
        first++;
    s->ring = all ? &all[first] : NULL;
    while (first + s->ring_count < s->r->chunk_count &&
           all[first + s->ring_count].type == PIANO_CHUNK_EVENTS)
        s->ring_count++;
}

static int scan_all(struct scan *s)
{
    struct rec_reader *r = s->r;
    int err = 0;
    find_ring(s);
    for (size_t i = 0; i < r->chunk_count && err == 0 && !s->full; i++) {
        uint32_t type = r->chunks[i].type;
        if (type == PIANO_CHUNK_EVENTS || type == PIANO_CHUNK_DEFINITIONS)
            err = scan_chunk(s, &r->chunks[i]);
        if (s->full)
            rec_gap(r->rec, r->chunks[i].at, 0, "more threads in chunks than can be read");
    }
    return err ? err : sort_segments(&r->rec->events);
}

static void find_times(struct recording *rec)
{
    if (rec->events.segment_count) {
        find_ends(&rec->events);
        if (rec->header.ended_ns > 0 && rec->header.ended_ns < rec->events.last_ns)
            rec->events.last_ns = rec->header.ended_ns;
        find_complete(rec);
    }
}

/* Makes the clock of the pairs and finds the times, unless there is an error. Releases S. */
static int finish(struct scan *s, int err)
{
    map_release(&s->known);
    if (err) {
        free(s->pairs);
        return err;
    }
    rec_make_clock(s->r->rec, s->pairs, s->pair_count);
    find_times(s->r->rec);
    return 0;
}

int rec_read_events(struct rec_reader *r)
{
    struct scan s = {.r = r};
    return finish(&s, scan_all(&s));
}

int rec_read_more_events(struct rec_reader *r, const struct recording_pair *now)
{
    struct recording_events *events = &r->rec->events;
    struct scan s = {.r = r, .pairs = malloc(sizeof(*s.pairs)), .pair_count = 1};
    int err = s.pairs ? 0 : -ENOMEM;
    free(events->segments);
    events->segments = NULL;
    events->segment_count = 0;
    for (uint32_t i = 0; i < events->track_count && err == 0; i++) {
        events->tracks[i].segments = events->tracks[i].definitions = 0;
        err = map_put(&s.known, events->tracks[i].tid, i);
    }
    if (err == 0) {
        s.pairs[0] = *now;
        err = scan_all(&s);
    }
    return finish(&s, err);
}
