/* All events of a recording in order of time: two cursors per thread, one for its definitions and
 * one for all else, and a heap of the cursors by their next event. A thread usually has many events in a row, so the top of the heap rarely
 * changes. */
#include "tool/load/rec.h"

#include <stdlib.h>

struct cursor {
    const char *at, *to;
    size_t segment, behind; /* in `segments` */
    size_t pair;
    uint64_t ticks, ns; /* of the next event */
    struct rec_event next;
    uint32_t track;
    bool gap; /* before `next` */
};

struct recording_walk {
    const struct recording *rec;
    const struct recording_events *events;
    uint64_t until_ns; /* the recording was ended then; 0: it was not */
    struct cursor *cursors;
    struct cursor **heap; /* the earliest first */
    size_t count;
};

static const struct recording_clock *clock_of(const struct recording *rec, uint32_t track)
{
    uint32_t part = rec->events.tracks[track].part;
    return part ? &rec->parts[part - 1].rec.events.clock : &rec->events.clock;
}

/* Reads the next event of C; false at the end. Time never goes back, even if the file says so. */
static bool advance(const struct recording_walk *w, struct cursor *c)
{
    for (;;) {
        while (c->at >= c->to) {
            if (c->segment == c->behind)
                return false;
            const struct recording_segment *g = &w->events->segments[c->segment++];
            c->at = g->from;
            c->to = g->to;
            c->ticks = g->ticks;
            c->gap |= g->after_gap;
        }
        size_t bytes = rec_event_at(c->at, c->to, &c->next);
        if (bytes == 0) { /* the program is writing to this chunk */
            c->at = c->to;
            continue;
        }
        c->at += bytes;
        c->ticks += c->next.ticks;
        if (c->next.event.code == PIANO_EVENT_THREAD)
            continue;
        uint64_t ns = recording_time(clock_of(w->rec, c->track), c->ticks, &c->pair);
        c->ns = ns > c->ns ? ns : c->ns;
        return w->until_ns == 0 || ns <= w->until_ns;
    }
}

/* At the same time, the cursors of definitions come first. */
static bool is_before(const struct cursor *a, const struct cursor *b)
{
    return a->ns != b->ns ? a->ns < b->ns : a < b;
}

static void sink(struct recording_walk *w, size_t at)
{
    struct cursor *c = w->heap[at];
    for (size_t child; (child = 2 * at + 1) < w->count; at = child) {
        if (child + 1 < w->count && is_before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!is_before(w->heap[child], c))
            break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = c;
}

struct recording_walk *recording_walk_new(const struct recording *rec)
{
    const struct recording_events *events = &rec->events;
    struct recording_walk *w = calloc(1, sizeof(*w));
    struct cursor *cursors = calloc(2 * events->track_count + 1, sizeof(*cursors));
    struct cursor **heap = calloc(2 * events->track_count + 1, sizeof(struct cursor *));
    if (!w || !cursors || !heap) {
        free(w);
        free(cursors);
        free(heap);
        return NULL;
    }
    *w = (struct recording_walk){rec, events, rec->header.ended_ns, cursors, heap, 0};
    for (uint32_t i = 0; i < events->track_count; i++) {
        const struct recording_track *t = &events->tracks[i];
        size_t end = t->first + t->segments, definitions = end - t->definitions;
        struct cursor *defining = &cursors[i], *other = &cursors[events->track_count + i];
        *defining = (struct cursor){.segment = definitions, .behind = end, .track = i};
        *other = (struct cursor){.segment = t->first, .behind = definitions, .track = i};
        if (advance(w, defining))
            heap[w->count++] = defining;
        if (advance(w, other))
            heap[w->count++] = other;
    }
    for (size_t i = w->count / 2; i-- > 0;)
        sink(w, i);
    return w;
}

/* Gives the names, tasks and queues of another process their numbers in the joined recording. */
static void renumber(struct recording_event *e, uint32_t part, uint64_t names)
{
    const uint64_t ids = (uint64_t)part << REC_ID_SHIFT;
    switch (e->code) {
    case PIANO_EVENT_WORKER_START:
        e->worker_start.name += e->worker_start.name ? names : 0;
        break;
    case PIANO_EVENT_TASK_SPAWN:
        e->task_spawn.task += ids;
        e->task_spawn.name += e->task_spawn.name ? names : 0;
        e->task_spawn.place += e->task_spawn.place ? names : 0;
        break;
    case PIANO_EVENT_TASK_END:
        e->task_end.task += ids;
        break;
    case PIANO_EVENT_POLL_BEGIN:
        e->poll_begin.task += ids;
        e->poll_begin.name += e->poll_begin.name ? names : 0;
        break;
    case PIANO_EVENT_WAKE:
        e->wake.task += ids;
        break;
    case PIANO_EVENT_QUEUE:
        e->queue.queue += ids;
        break;
    case PIANO_EVENT_MARK:
        e->mark.name += e->mark.name ? names : 0;
        break;
    case PIANO_EVENT_VALUE:
        e->value.name += e->value.name ? names : 0;
        break;
    case PIANO_EVENT_THREAD:
    case PIANO_EVENT_WORKER_STOP:
    case PIANO_EVENT_POLL_END:
    case PIANO_EVENT_PARK:
    case PIANO_EVENT_UNPARK:
    case PIANO_EVENT_UNKNOWN:
        break;
    }
}

bool recording_walk_next(struct recording_walk *w, struct recording_event *e)
{
    if (w->count == 0)
        return false;
    struct cursor *c = w->heap[0];
    *e = c->next.event;
    e->at_ns = c->ns;
    e->track = c->track;
    e->after_gap = c->gap;
    c->gap = false;
    uint32_t part = w->events->tracks[c->track].part;
    if (part)
        renumber(e, part, w->rec->parts[part - 1].names);
    if (!advance(w, c))
        w->heap[0] = w->heap[--w->count];
    if (w->count > 1)
        sink(w, 0);
    return true;
}

void recording_walk_free(struct recording_walk *w)
{
    if (!w)
        return;
    free(w->cursors);
    free(w->heap);
    free(w);
}
