/* Converts the events of a recording to tables: the same polls and parks as in `piano report
 * --polls`.
 *
 * They arrive in the order of their ends, but a page needs them by thread and start, so they are
 * collected and sorted. A page has room for MOST_STAYS of each kind, and for MOST_GROWING while the
 * recording grows, because it is then packed again and again. When this many are reached, the
 * shorter half is dropped, and from then on everything that is shorter. The sums of tasks still
 * include them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"
#include "tool/view/packer.h"

enum { MOST_STAYS = 1 << 22, MOST_GROWING = 1 << 15, MOST_POINTS = 1 << 22 };

enum { FLAG_OPEN = 1, FLAG_NESTED = 2 };

/* A poll, or a park whose kind is in `flags`. */
struct stay {
    int64_t start, length;
    int64_t wake; /* + 1; 0: none */
    uint32_t lane, task, waker_lane, waker_task;
    uint8_t flags;
};

struct stays {
    struct stay *list;
    size_t count, cap, most;
    int64_t least; /* minimum length to be kept */
    uint64_t left_out;
    bool failed;
};

struct collector {
    struct packer *k;
    struct stays polls, parks;
    struct pack_table *queues, *values, *marks, *queue_names;
    struct map queue_rows;
    uint64_t left_out; /* points */
};

/* ---- polls and parks ---- */

static int compare_lengths(const void *a, const void *b)
{
    const struct stay *x = a, *y = b;
    return (x->length < y->length) - (x->length > y->length);
}

/* In a thread, of two that begin at the same time the longer one contains the other. */
static int compare_starts(const void *a, const void *b)
{
    const struct stay *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return compare_lengths(a, b);
}

static void add_stay(struct stays *s, const struct stay *stay)
{
    if (stay->length < s->least) {
        s->left_out++;
        return;
    }
    if (s->count == s->most) {
        qsort(s->list, s->count, sizeof(*s->list), compare_lengths);
        s->count /= 2;
        s->least = s->list[s->count].length;
        s->left_out += s->count;
    }
    if (VEC_ROOM(s->list, s->count, s->cap) == 0)
        s->list[s->count++] = *stay;
    else
        s->failed = true;
}

static void on_poll(void *ctx, const struct polls *p, const struct poll *poll)
{
    struct collector *c = ctx;
    struct lanes *lanes = &c->k->lanes;
    const struct stay stay = {
        .start = packer_moment(c->k, poll->begin_ns),
        .length = polls_duration(poll),
        .wake = poll->woken ? packer_moment(c->k, poll->cause_ns) + 1 : 0,
        .lane = lanes_of(lanes, p->tracks[poll->track].tid),
        .task = poll->group,
        .waker_lane = poll->woken ? lanes_of(lanes, p->tracks[poll->waker_track].tid) : PACK_NONE,
        .waker_task = poll->woken ? poll->waker_group : PACK_NONE,
        .flags = (uint8_t)((poll->open ? FLAG_OPEN : 0) | (poll->depth ? FLAG_NESTED : 0))};
    add_stay(&c->polls, &stay);
}

static void on_park(void *ctx, const struct polls *p, uint32_t track, uint64_t to_ns)
{
    struct collector *c = ctx;
    const struct polls_track *t = &p->tracks[track];
    int64_t start = packer_moment(c->k, t->park_ns), end = packer_moment(c->k, to_ns);
    const struct stay stay = {.start = start,
                              .length = end - start,
                              .lane = lanes_of(&c->k->lanes, t->tid),
                              .flags = t->park_kind};
    add_stay(&c->parks, &stay);
}

/* ---- points ---- */

static uint32_t queue_row(struct collector *c, const struct recording *rec, uint64_t queue)
{
    uint32_t row = map_find(&c->queue_rows, queue);
    char text[40];
    if (row != MAP_NONE)
        return row;
    row = (uint32_t)c->queue_rows.count;
    if (map_put(&c->queue_rows, queue, row) != 0)
        c->k->pack.failed = true;
    snprintf(text, sizeof(text), "queue %llu", (unsigned long long)recording_own_id(rec, queue));
    column_put(&c->queue_names->columns[0], texts_of(&c->k->texts, text));
    SCHEMA_WRITES(queue_names, 1);
    return row;
}

static uint32_t event_text(struct collector *c, const struct polls *p, event_name id)
{
    const char *name = recording_name_of(p->rec, id);
    return texts_of(&c->k->texts, name ? name : "(no name)");
}

/* Begins a row of T, at the time of E. Returns false if the table is full. */
static bool begin_point(struct collector *c, struct pack_table *t, const struct recording_event *e)
{
    if (t->columns[0].rows >= MOST_POINTS) {
        c->left_out++;
        return false;
    }
    column_put(&t->columns[0], packer_moment(c->k, e->at_ns));
    return true;
}

static void put_queue(struct collector *c, const struct polls *p, const struct recording_event *e)
{
    if (!begin_point(c, c->queues, e))
        return;
    column_put(&c->queues->columns[1], queue_row(c, p->rec, e->queue.queue));
    column_put(&c->queues->columns[2], e->queue.depth);
    SCHEMA_WRITES(queues, 3);
}

static void put_value(struct collector *c, const struct polls *p, const struct recording_event *e)
{
    if (!begin_point(c, c->values, e))
        return;
    column_put(&c->values->columns[1], event_text(c, p, e->value.name));
    column_put_f64(&c->values->columns[2], (double)e->value.value);
    SCHEMA_WRITES(values, 3);
}

static void put_mark(struct collector *c, const struct polls *p, const struct recording_event *e)
{
    if (!begin_point(c, c->marks, e))
        return;
    column_put(&c->marks->columns[1], lanes_of(&c->k->lanes, p->tracks[e->track].tid));
    column_put(&c->marks->columns[2], event_text(c, p, e->mark.name));
    SCHEMA_WRITES(marks, 3);
}

static void on_event(void *ctx, const struct polls *p, const struct recording_event *e)
{
    struct collector *c = ctx;
    switch (e->code) {
    case PIANO_EVENT_QUEUE:
        put_queue(c, p, e);
        break;
    case PIANO_EVENT_VALUE:
        put_value(c, p, e);
        break;
    case PIANO_EVENT_MARK:
        put_mark(c, p, e);
        break;
    case PIANO_EVENT_POLL_BEGIN: /* on_poll */
    case PIANO_EVENT_POLL_END:
    case PIANO_EVENT_WAKE:
    case PIANO_EVENT_TASK_SPAWN: /* put_tasks */
    case PIANO_EVENT_TASK_END:
    case PIANO_EVENT_PARK: /* on_park */
    case PIANO_EVENT_UNPARK:
    case PIANO_EVENT_WORKER_START: /* name_workers */
    case PIANO_EVENT_WORKER_STOP:
    case PIANO_EVENT_THREAD:
    case PIANO_EVENT_UNKNOWN:
        break;
    }
}

static int start_points(struct collector *c)
{
    c->queues = pack_add(&c->k->pack, SCHEMA_queues);
    c->queue_names = pack_add(&c->k->pack, SCHEMA_queue_names);
    c->values = pack_add(&c->k->pack, SCHEMA_values);
    c->marks = pack_add(&c->k->pack, SCHEMA_marks);
    return c->k->pack.failed ? -ENOMEM : 0;
}

/* ---- tables ---- */

static void put_tasks(struct packer *k, struct polls *p)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_tasks);
    for (size_t i = 0; t && i < p->group_count; i++) {
        struct polls_group *g = &p->groups[i];
        uint32_t name = texts_of(&k->texts, g->name);
        const int64_t values[] = {name,
                                  g->kind == POLLS_PLACE ? name : PACK_NONE,
                                  g->kind,
                                  figure_whole((double)g->polls),
                                  figure_whole((double)g->total_ns),
                                  samples_percentile(&g->durations, 0.50),
                                  samples_percentile(&g->durations, 0.99),
                                  figure_whole((double)g->max_ns)};
        SCHEMA_WRITES(tasks, sizeof(values) / sizeof(*values) + 1);
        for (size_t c = 0; c < 8; c++)
            column_put(&t->columns[c], values[c]);
        column_put_f64(&t->columns[8], polls_on_cpu(p, &g->time, g->total_ns));
    }
}

static void put_polls(struct packer *k, const struct stays *s)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_polls);
    for (size_t i = 0; t && i < s->count; i++) {
        const struct stay *p = &s->list[i];
        const int64_t values[] = {p->start, p->length, p->lane,       p->task,
                                  p->flags, p->wake,   p->waker_lane, p->waker_task};
        SCHEMA_WRITES(polls, sizeof(values) / sizeof(*values));
        for (size_t c = 0; c < SCHEMA_COLUMNS(polls); c++)
            column_put(&t->columns[c], values[c]);
    }
}

static void put_parks(struct packer *k, const struct stays *s)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_parks);
    for (size_t i = 0; t && i < s->count; i++) {
        const struct stay *p = &s->list[i];
        const int64_t values[] = {p->start, p->length, p->lane, p->flags};
        SCHEMA_WRITES(parks, sizeof(values) / sizeof(*values));
        for (size_t c = 0; c < SCHEMA_COLUMNS(parks); c++)
            column_put(&t->columns[c], values[c]);
    }
}

/* Sorts the kept ones and reports the dropped ones. */
static void finish_stays(struct packer *k, struct stays *s, const char *what)
{
    char text[UNITS_LEN];
    if (s->count)
        qsort(s->list, s->count, sizeof(*s->list), compare_starts);
    k->pack.failed |= s->failed;
    if (s->left_out == 0)
        return;
    packer_notice(k, "%llu %s of %s or less are not on the page; sums include them",
                  (unsigned long long)s->left_out, what, units_time(text, s->least));
}

/* Labels workers by their names. A thread that was several workers gets the last name. */
static void name_workers(struct packer *k, const struct polls *p)
{
    char text[40];
    for (size_t i = 0; i < p->rec->events.track_count; i++) {
        const struct polls_track *t = &p->tracks[i];
        if (!t->is_worker)
            continue;
        const char *name = recording_name_of(p->rec, t->worker_name);
        snprintf(text, sizeof(text), "worker %llu", (unsigned long long)t->worker);
        lanes_worker(&k->lanes, &k->texts, lanes_of(&k->lanes, t->tid), name ? name : text);
    }
}

int packer_add_events(struct packer *k, struct polls *p)
{
    size_t most = k->is_growing ? MOST_GROWING : MOST_STAYS;
    struct collector c = {.k = k, .polls = {.most = most}, .parks = {.most = most}};
    const struct polls_listener listener = {on_poll, on_park, on_event, &c};
    int err = start_points(&c);
    if (err == 0)
        err = polls_go(p, &listener);
    if (err == 0) {
        say_progress("sorting %zu polls", c.polls.count);
        finish_stays(k, &c.polls, "polls");
        finish_stays(k, &c.parks, "parks");
        put_polls(k, &c.polls);
        free(c.polls.list);
        c.polls.list = NULL;
        put_parks(k, &c.parks);
        put_tasks(k, p);
        name_workers(k, p);
        if (c.left_out)
            packer_notice(
                k, "%llu values, marks and queue depths are not on the page: the latest ones",
                (unsigned long long)c.left_out);
    }
    free(c.polls.list);
    free(c.parks.list);
    map_release(&c.queue_rows);
    return err ? err : k->pack.failed ? -ENOMEM : 0;
}
