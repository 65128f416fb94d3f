/* One pass over the events of a recording.
 *
 * Each thread is a small state machine: its open polls (a stack, because polls can nest), a turn
 * of its loop, a park. If a thread reports its polls, these are used. If it does not, but
 * returns repeatedly to the same kind of wait, the time between two such waits is a poll of its
 * loop. Waits of other kinds in between are part of the turn, as lost time.
 *
 * RANGE. The pass goes through all events even if only a range of time was asked for: names, wakes
 * and open polls come from before it, and polls that began in it end after it. What is counted
 * is only what load/range.h says. */
#include "tool/profile/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum { PROGRESS_EVERY = 1 << 20 };

const char *const polls_park_names[PIANO_PARKS] = {"park",     "epoll",     "poll",      "select",
                                                   "io_uring", "condition", "semaphore", "barrier",
                                                   "taskwait", "idle"};

/* ---- the machine of a thread ---- */

static int push(struct polls *p, struct polls_track *t, const struct poll *poll)
{
    if (t->depth == POLLS_MAX_DEPTH) { /* ends must have been lost: drop the outermost */
        p->too_deep++;
        memmove(t->stack, t->stack + 1, (t->depth - 1) * sizeof(*t->stack));
        t->depth--;
    }
    if (VEC_ROOM(t->stack, t->depth, t->stack_cap) != 0)
        return -ENOMEM;
    t->stack[t->depth++] = *poll;
    return 0;
}

static void set_cause(struct poll *poll, struct polls_task *task)
{
    if (task->wake_ns) {
        poll->woken = true;
        poll->cause_ns = task->wake_ns;
        poll->waker_track = task->waker_track;
        poll->waker_group = task->waker_group;
        poll->waker_task = task->waker_task;
    } else if (task->spawned && !task->polled) {
        poll->spawned = true;
        poll->cause_ns = task->spawn_ns;
        poll->waker_track = task->spawner_track;
        poll->waker_group = task->spawner_group;
    }
    task->wake_ns = 0;
    task->polled = true;
}

static int poll_begin(struct polls *p, struct polls_track *t, const struct recording_event *e)
{
    const struct event_poll_begin *begin = &e->poll_begin;
    struct polls_task *task = polls_task_of(p, begin->task, false);
    struct poll poll = {.begin_ns = e->at_ns,
                        .task = begin->task,
                        .track = e->track,
                        .depth = (uint32_t)t->depth,
                        .waker_group = POLLS_NO_GROUP};
    if (begin->name)
        poll.group = polls_group(p, POLLS_CALLBACK, begin->name);
    else if (task && task->group != POLLS_NO_GROUP)
        poll.group = task->group;
    else
        poll.group = polls_group(p, POLLS_UNNAMED, 0);
    if (poll.group == POLLS_NO_GROUP)
        return -ENOMEM;
    if (task)
        set_cause(&poll, task);
    poll.time = polls_until(p, t, e->at_ns);
    return push(p, t, &poll);
}

static int finish_poll(struct polls *p, struct polls_track *t, struct poll *poll, uint64_t at_ns)
{
    struct polls_time now = polls_until(p, t, at_ns);
    uint64_t from = poll->begin_ns, to = at_ns;
    poll->end_ns = at_ns;
    poll->time = polls_between(&poll->time, &now);
    if (poll->depth == 0 && range_clip(&p->range, &from, &to))
        t->busy_ns += to - from;
    if (!range_has(&p->range, poll->begin_ns))
        return 0;
    t->polls++;
    if (at_ns - poll->begin_ns > t->longest_ns)
        t->longest_ns = at_ns - poll->begin_ns;
    if (poll->depth == 0)
        polls_time_add(&t->busy_time, &poll->time);
    if (p->listener && p->listener->poll)
        p->listener->poll(p->listener->ctx, p, poll);
    return polls_note(p, poll);
}

static int poll_end(struct polls *p, struct polls_track *t, const struct recording_event *e)
{
    if (t->depth == 0) {
        p->stray_ends++;
        return 0;
    }
    return finish_poll(p, t, &t->stack[--t->depth], e->at_ns);
}

static int park(struct polls *p, struct polls_track *t, const struct recording_event *e)
{
    int err = 0;
    if (e->park.kind == t->loop && t->in_turn) {
        t->in_turn = false;
        err = finish_poll(p, t, &t->turn, e->at_ns);
    }
    t->park_mark = polls_until(p, t, e->at_ns);
    t->moved_ns = 0;
    t->parked = true;
    t->park_ns = e->at_ns;
    t->park_kind = e->park.kind;
    t->park_queued = polls_queued_until(p, e->at_ns);
    return err;
}

static void park_over(struct polls *p, struct polls_track *t, uint64_t at_ns)
{
    struct polls_time now = polls_until(p, t, at_ns);
    bool is_cut = p->is_past && t->park_ns < p->range.to_ns;
    t->waited_ns = now.waited_ns;
    t->parked = false;
    if ((p->range.given && !p->is_in) || (p->is_past && !is_cut))
        return;
    if (is_cut) {
        at_ns = p->range.to_ns;
        now = t->stop;
    }
    uint64_t queued = is_cut ? p->queued_stop : polls_queued_until(p, at_ns);
    uint64_t parked = at_ns - t->park_ns, starved = queued - t->park_queued;
    struct polls_time time = polls_between(&t->park_mark, &now);
    polls_time_add(&t->park_time, &time);
    if (p->listener && p->listener->park)
        p->listener->park(p->listener->ctx, p, (uint32_t)(t - p->tracks), at_ns);
    if (time.off_ns > 0 || parked >= POLLS_AWAY_NS) /* else its CPU time is unknown */
        t->park_cpu_ns += parked > time.off_ns ? parked - time.off_ns : 0;
    t->parks++;
    t->parked_ns += parked;
    if (t->park_kind < PIANO_PARKS)
        t->parked_by[t->park_kind] += parked;
    t->park_max_ns = parked > t->park_max_ns ? parked : t->park_max_ns;
    if (!t->is_worker)
        return;
    t->starved_ns += starved;
    t->starved_max_ns = starved > t->starved_max_ns ? starved : t->starved_max_ns;
}

static int unpark(struct polls *p, struct polls_track *t, const struct recording_event *e)
{
    bool loop = t->loop >= 0 && (!t->parked || t->park_kind == t->loop);
    if (t->parked)
        park_over(p, t, e->at_ns);
    if (!loop || t->in_turn)
        return 0;
    uint32_t group = polls_group(p, POLLS_LOOP, e->track);
    if (group == POLLS_NO_GROUP)
        return -ENOMEM;
    t->in_turn = true;
    t->turn = (struct poll){.begin_ns = e->at_ns,
                            .track = e->track,
                            .group = group,
                            .waker_group = POLLS_NO_GROUP,
                            .returned = e->unpark.result,
                            .time = polls_until(p, t, e->at_ns)};
    return 0;
}

/* ---- tasks, workers, queues ---- */

static uint32_t group_now(const struct polls_track *t)
{
    return t->depth ? t->stack[t->depth - 1].group : t->in_turn ? t->turn.group : POLLS_NO_GROUP;
}

static int spawn(struct polls *p, const struct polls_track *t, const struct recording_event *e)
{
    uint64_t task_id = e->task_spawn.task, name = e->task_spawn.name, place = e->task_spawn.place;
    uint32_t group = name    ? polls_group(p, POLLS_TASK, name)
                     : place ? polls_group(p, POLLS_PLACE, place)
                             : polls_group(p, POLLS_UNNAMED, 0);
    if (group == POLLS_NO_GROUP)
        return -ENOMEM;
    p->groups[group].spawned += range_has(&p->range, e->at_ns);
    polls_series_set(p, &p->alive, e->at_ns, p->alive.value + 1);
    struct polls_task *task = polls_task_of(p, task_id, true);
    if (!task)
        return 0; /* counted */
    *task = (struct polls_task){.id = task_id,
                                .spawn_ns = e->at_ns,
                                .spawned = true,
                                .group = group,
                                .waker_group = POLLS_NO_GROUP,
                                .spawner_track = e->track,
                                .spawner_group = group_now(t)};
    return 0;
}

static void task_end(struct polls *p, const struct recording_event *e)
{
    const struct polls_task *task = polls_task_of(p, e->task_end.task, false);
    if (!task)
        return;
    if (task->spawned) {
        p->groups[task->group].ended += range_has(&p->range, e->at_ns);
        polls_series_set(p, &p->alive, e->at_ns, p->alive.value - 1);
    }
    polls_task_gone(p, e->task_end.task);
}

static void wake(struct polls *p, const struct polls_track *t, const struct recording_event *e)
{
    struct polls_task *task = p->is_partial ? NULL : polls_task_of(p, e->wake.task, true);
    if (!task)
        return;
    task->wake_ns = e->at_ns;
    task->waker_track = e->track;
    task->waker_group = group_now(t);
    task->waker_task = t->depth ? t->stack[t->depth - 1].task : 0;
}

/* Ends the worker on this thread. */
static void leave_worker(struct polls *p, struct polls_track *t, uint32_t track, uint64_t at_ns)
{
    for (size_t i = p->worker_count; t->is_worker && i-- > 0;)
        if (p->workers[i].track == track && p->workers[i].to_ns == 0) {
            p->workers[i].to_ns = at_ns;
            break;
        }
}

static int worker_start(struct polls *p, struct polls_track *t, const struct recording_event *e)
{
    bool same = t->is_worker && t->worker == e->worker_start.worker;
    if (!same)
        leave_worker(p, t, e->track, e->at_ns);
    t->is_worker = true;
    t->worker = e->worker_start.worker;
    t->worker_name = e->worker_start.name;
    if (same || p->worker_count == POLLS_MAX_SERIES)
        return 0;
    if (VEC_ROOM(p->workers, p->worker_count, p->worker_cap) != 0)
        return -ENOMEM;
    p->workers[p->worker_count++] = (struct polls_worker){
        .worker = t->worker, .name = t->worker_name, .track = e->track, .from_ns = e->at_ns};
    return 0;
}

static void queue(struct polls *p, const struct recording_event *e)
{
    struct polls_series *s = polls_series_of(p, POLLS_QUEUES, e->queue.queue);
    if (!s)
        return;
    p->queued_ns = polls_queued_until(p, e->at_ns);
    p->queued_since = e->at_ns;
    p->queued += (uint64_t)(e->queue.depth - (s->has_value ? s->value : 0));
    polls_series_set(p, s, e->at_ns, e->queue.depth);
}

static void note(struct polls *p, enum polls_series_kind kind, uint64_t key, uint64_t at_ns,
                 int64_t value)
{
    struct polls_series *s = range_has(&p->range, at_ns) ? polls_series_of(p, kind, key) : NULL;
    if (s)
        polls_series_set(p, s, at_ns, value);
}

/* Events of this thread are missing. What was open ended at an unknown time. */
void polls_cut(struct polls *p, struct polls_track *t)
{
    p->cut += t->depth + t->in_turn;
    t->depth = 0;
    t->in_turn = t->parked = false;
}

int polls_take(struct polls *p, const struct recording_event *e)
{
    struct polls_track *t = &p->tracks[e->track];
    bool is_counted = range_has(&p->range, e->at_ns);
    polls_pass_edges(p, e->at_ns);
    if (e->after_gap)
        polls_cut(p, t);
    t->last_ns = e->at_ns > t->last_ns ? e->at_ns : t->last_ns;
    p->events += is_counted;
    t->events += is_counted;
    if (is_counted && p->listener && p->listener->event)
        p->listener->event(p->listener->ctx, p, e);
    switch (e->code) {
    case PIANO_EVENT_POLL_BEGIN:
        return poll_begin(p, t, e);
    case PIANO_EVENT_POLL_END:
        return poll_end(p, t, e);
    case PIANO_EVENT_PARK:
        return park(p, t, e);
    case PIANO_EVENT_UNPARK:
        return unpark(p, t, e);
    case PIANO_EVENT_TASK_SPAWN:
        return spawn(p, t, e);
    case PIANO_EVENT_TASK_END:
        task_end(p, e);
        return 0;
    case PIANO_EVENT_WAKE:
        wake(p, t, e);
        return 0;
    case PIANO_EVENT_WORKER_START:
        return worker_start(p, t, e);
    case PIANO_EVENT_WORKER_STOP:
        leave_worker(p, t, e->track, e->at_ns);
        return 0;
    case PIANO_EVENT_QUEUE:
        queue(p, e);
        return 0;
    case PIANO_EVENT_VALUE:
        note(p, POLLS_VALUES, e->value.name, e->at_ns, e->value.value);
        return 0;
    case PIANO_EVENT_MARK:
        note(p, POLLS_MARKS, e->mark.name, e->at_ns, 0);
        return 0;
    case PIANO_EVENT_THREAD: /* the track says which thread */
    case PIANO_EVENT_UNKNOWN:
        return 0;
    }
    return 0;
}

/* ---- all of them ---- */

/* Closes what was open when the recording ended. A thread in a poll is still there. A thread in
 * a turn of its loop may have ended without an exit record, so its turn ends at its last event
 * or sample. */
static int finish_track(struct polls *p, uint32_t track)
{
    struct polls_track *t = &p->tracks[track];
    const struct recording_process *process = recording_track_process(p->rec, track);
    uint32_t pid = process ? process->pid : p->rec->header.pid;
    uint64_t end = process && process->end_ns < p->end_ns ? process->end_ns : p->end_ns;
    uint64_t last = t->tid == pid || t->last_ns > end ? end : t->last_ns;
    int err = 0;
    if (t->in_turn) {
        t->turn.open = true;
        last = t->parked ? end : last; /* it is waiting inside the turn */
        if (last > t->turn.begin_ns)   /* else nothing is known of it */
            err = finish_poll(p, t, &t->turn, last);
    }
    while (t->depth > 0 && err == 0) {
        struct poll *poll = &t->stack[--t->depth];
        poll->open = true;
        err = finish_poll(p, t, poll, end > poll->begin_ns ? end : poll->begin_ns);
    }
    if (t->parked)
        park_over(p, t, end > t->park_ns ? end : t->park_ns);
    return err;
}

static int finish_tracks(struct polls *p)
{
    int err = 0;
    polls_pass_edges(p, p->end_ns);
    for (uint32_t i = 0; i < p->rec->events.track_count && err == 0; i++)
        err = finish_track(p, i);
    for (size_t i = 0; i < p->series[POLLS_QUEUES].count; i++)
        polls_series_end(p, &p->series[POLLS_QUEUES].list[i]);
    polls_series_end(p, &p->alive);
    return err;
}

static int compare_longest(const void *a, const void *b)
{
    const struct poll *x = a, *y = b;
    return ORDER(polls_duration(y), polls_duration(x)) ?: ORDER(x->begin_ns, y->begin_ns);
}

int polls_go(struct polls *p, const struct polls_listener *listener)
{
    p->listener = listener;
    struct recording_walk *walk = recording_walk_new(p->rec);
    struct recording_event e;
    int err = walk ? polls_start_tracks(p) : -ENOMEM;
    for (uint64_t n = 1; err == 0 && recording_walk_next(walk, &e); n++) {
        err = polls_take(p, &e);
        if (n % PROGRESS_EVERY == 0)
            say_progress("going through %llu events: %llu",
                         (unsigned long long)p->rec->events.count, (unsigned long long)n);
    }
    recording_walk_free(walk);
    if (err == 0)
        err = finish_tracks(p);
    if (err == 0 && p->longest_count)
        qsort(p->longest, p->longest_count, sizeof(*p->longest), compare_longest);
    p->listener = NULL;
    say_progress_done();
    return err;
}

static int out_of_memory(struct polls *p, struct run_error *error)
{
    char safe[300];
    *error = (struct run_error){.text = ""};
    snprintf(error->text, sizeof(error->text), "%s: not enough memory for its events",
             say_safe(safe, sizeof(safe), p->rec->path));
    polls_release(p);
    return -ENOMEM;
}

int polls_start(struct polls *p, struct profile *profile, size_t longest, struct run_error *error)
{
    *p = (struct polls){.longest_max = longest < POLLS_MAX_LONGEST ? longest : POLLS_MAX_LONGEST,
                        .profile = profile,
                        .rec = &profile->rec};
    p->start_ns = p->rec->header.start_mono_ns;
    p->range = p->rec->range;
    p->end_ns = p->rec->end_ns > p->rec->events.last_ns ? p->rec->end_ns : p->rec->events.last_ns;
    p->exact = p->rec->has_off;
    p->sampled = p->rec->has_cpu;
    p->alive_known =
        p->rec->header.trace.recycled == 0 || p->rec->header.trace.definitions_in_ring == 0;
    p->longest = calloc(p->longest_max + 1, sizeof(*p->longest));
    return p->longest ? 0 : out_of_memory(p, error);
}

int polls_make(struct polls *p, struct profile *profile, size_t longest, struct run_error *error)
{
    int err = polls_start(p, profile, longest, error);
    return err ? err : polls_go(p, NULL) != 0 ? out_of_memory(p, error) : 0;
}

bool polls_covers(const struct polls *p, uint64_t *ns)
{
    uint64_t from = p->rec->events.complete_ns;
    *ns = from < p->end_ns ? p->end_ns - from : 0;
    return from > p->start_ns && from != UINT64_MAX;
}

void polls_release(struct polls *p)
{
    for (size_t i = 0; i < p->group_count; i++) {
        free(p->groups[i].name);
        samples_release(&p->groups[i].durations);
        samples_release(&p->groups[i].wakes);
    }
    for (size_t i = 0; i < p->track_count; i++)
        free(p->tracks[i].stack);
    samples_release(&p->wakes);
    samples_release(&p->spawns);
    map_release(&p->group_of);
    map_release(&p->task_of);
    for (int i = 0; i < POLLS_SERIES_KINDS; i++) {
        map_release(&p->series[i].of);
        free(p->series[i].list);
    }
    free(p->tracks);
    free(p->groups);
    free(p->tasks);
    free(p->workers);
    free(p->longest);
    *p = (struct polls){.rec = NULL};
}
