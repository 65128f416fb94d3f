/* Sums over polls: times by thread, groups, the longest polls, live tasks, figures over time. */
#include "tool/profile/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

/* ---- times of a thread ---- */

void polls_time_add(struct polls_time *to, const struct polls_time *more)
{
    to->cpu_ns += more->cpu_ns;
    to->cpu_samples += more->cpu_samples;
    to->off_ns += more->off_ns;
    to->preempted_ns += more->preempted_ns;
    to->waited_ns += more->waited_ns;
}

struct polls_time polls_between(const struct polls_time *from, const struct polls_time *to)
{
    return (struct polls_time){to->cpu_ns - from->cpu_ns, to->cpu_samples - from->cpu_samples,
                               to->off_ns - from->off_ns, to->preempted_ns - from->preempted_ns,
                               to->waited_ns - from->waited_ns};
}

/* Adds the time off the CPU up to TO to the sums. */
static void come_back(struct polls_track *t, uint64_t to)
{
    if (to <= t->away_from)
        return;
    t->passed.off_ns += to - t->away_from;
    t->passed.preempted_ns += t->away_preempted ? to - t->away_from : 0;
    t->away_from = to;
}

/* A thread is off the CPU only once at a time, so overlapping times count once. */
static void pass_sample(const struct polls *p, struct polls_track *t,
                        const struct recording_sample *s)
{
    if (s->kind == PIANO_SAMPLE_CPU) {
        t->passed.cpu_ns += s->value;
        t->passed.cpu_samples++;
        return;
    }
    come_back(t, t->away_to);
    uint64_t to = s->value ? s->at_ns + s->value : p->end_ns;
    uint64_t from = s->at_ns > t->away_to ? s->at_ns : t->away_to;
    t->away_from = from;
    t->away_to = to > from ? to : from;
    t->away_preempted = (s->flags & PIANO_SAMPLE_PREEMPTED) != 0;
}

struct polls_time polls_until(struct polls *p, struct polls_track *t, uint64_t at_ns)
{
    const struct recording_sample *samples = p->rec->samples;
    while (t->sample < t->sample_end && samples[t->sample].at_ns < at_ns)
        pass_sample(p, t, &samples[t->sample++]);
    come_back(t, at_ns < t->away_to ? at_ns : t->away_to);
    struct polls_time now = t->passed;
    bool inside = t->parked && (t->depth > 0 || t->in_turn);
    now.waited_ns = t->waited_ns + (inside ? at_ns - t->park_ns + t->moved_ns : 0);
    return now;
}

double polls_on_cpu(const struct polls *p, const struct polls_time *time, uint64_t total_ns)
{
    if (total_ns == 0 || (!p->exact && !p->sampled))
        return -1;
    double on = p->exact ? (double)total_ns - (double)time->off_ns : (double)time->cpu_ns;
    on /= (double)total_ns;
    return on < 0 ? 0 : on > 1 ? 1 : on;
}

uint64_t polls_blocked(const struct polls *p, const struct polls_time *time)
{
    uint64_t off = time->off_ns - time->preempted_ns;
    return p->exact ? off : time->waited_ns;
}

int64_t polls_duration(const struct poll *poll)
{
    return (int64_t)(poll->end_ns - poll->begin_ns);
}

/* ---- groups ---- */

/* Of several processes: " in process 4711", unless the thread has that number. */
static void put_process(char *text, size_t size, const struct polls *p, uint32_t track)
{
    const struct recording_process *process =
        p->rec->process_count > 1 ? recording_track_process(p->rec, track) : NULL;
    bool is_shown = process && (p->tracks[track].is_worker || process->pid != p->tracks[track].tid);
    size_t len = strlen(text);
    if (is_shown)
        snprintf(text + len, size - len, " in process %u", process->pid);
}

const char *polls_thread_name(char *text, size_t size, const struct polls *p, uint32_t track)
{
    const struct polls_track *t = &p->tracks[track];
    const char *name = t->is_worker ? recording_name_of(p->rec, t->worker_name) : NULL;
    char safe[200];
    if (name && *name)
        snprintf(text, size, "%s", say_safe(safe, sizeof(safe), name));
    else if (t->is_worker)
        snprintf(text, size, "worker %llu", (unsigned long long)t->worker);
    else if (t->name[0])
        snprintf(text, size, "%s (%u)", say_safe(safe, sizeof(safe), t->name), t->tid);
    else
        snprintf(text, size, "thread %u", t->tid);
    put_process(text, size, p, track);
    return text;
}

static char *group_name(const struct polls *p, enum polls_kind kind, uint64_t key)
{
    static const char *const loops[] = {"",          "epoll ",     "poll ",     "select ",
                                        "io_uring ", "condition ", "semaphore "};
    const char *name = kind == POLLS_LOOP ? NULL : recording_name_of(p->rec, key);
    char thread[256];
    struct buf b = {0};
    if (kind == POLLS_LOOP)
        buf_printf(&b, "%sloop of %s", loops[p->tracks[key].loop],
                   polls_thread_name(thread, sizeof(thread), p, (uint32_t)key));
    else if (kind == POLLS_UNNAMED)
        buf_puts(&b, "(no name)");
    else if (name && *name && (kind == POLLS_CALLBACK || kind == POLLS_TASK))
        polls_put_callback(&b, p, name);
    else if (name && *name)
        buf_printf(&b, "%s%s", kind == POLLS_PLACE ? "spawned at " : "", name);
    else
        buf_printf(&b, "(name %llu)", (unsigned long long)key);
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}

/* Key of a task's group by the text of its name, because one line of a program may have several
 * addresses. The low bits are 7; kinds use smaller numbers. */
static uint64_t key_of_text(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash << 3 | 7;
}

static uint32_t group_of_text(const struct polls *p, enum polls_kind kind, const char *name)
{
    uint32_t found = map_find(&p->group_of, key_of_text(name));
    bool is_same = found != MAP_NONE && p->groups[found].kind == kind &&
                   strcmp(p->groups[found].name, name) == 0;
    return is_same ? found : MAP_NONE;
}

uint32_t polls_group(struct polls *p, enum polls_kind kind, uint64_t key)
{
    uint64_t mixed = key << 3 | (uint64_t)kind;
    uint32_t found = map_find(&p->group_of, mixed);
    if (found != MAP_NONE)
        return found;
    if (p->group_count >= POLLS_MAX_GROUPS && kind != POLLS_UNNAMED)
        return polls_group(p, POLLS_UNNAMED, 0);
    if (VEC_ROOM(p->groups, p->group_count, p->group_cap) != 0)
        return POLLS_NO_GROUP;
    struct polls_group *new = &p->groups[p->group_count];
    *new = (struct polls_group){.kind = kind, .key = key, .name = group_name(p, kind, key)};
    if (!new->name)
        return POLLS_NO_GROUP;
    uint64_t by_text = key_of_text(new->name);
    /* Each process numbers its names for itself, so several have one text. */
    bool is_by_text = kind == POLLS_TASK || (p->rec->part_count > 0 && kind != POLLS_LOOP);
    found = is_by_text ? group_of_text(p, kind, new->name) : MAP_NONE;
    uint32_t group = found != MAP_NONE ? found : (uint32_t)p->group_count;
    bool taken = !is_by_text || map_find(&p->group_of, by_text) != MAP_NONE;
    if (map_put(&p->group_of, mixed, group) != 0 ||
        (!taken && map_put(&p->group_of, by_text, group) != 0)) {
        free(new->name);
        return POLLS_NO_GROUP;
    }
    if (found != MAP_NONE)
        free(new->name);
    else
        p->group_count++;
    return group;
}

/* ---- queues ---- */

uint64_t polls_queued_until(const struct polls *p, uint64_t at_ns)
{
    return p->queued_ns + (p->queued > 0 ? at_ns - p->queued_since : 0);
}

/* ---- the longest ---- */

static void keep_longest(struct polls *p, const struct poll *poll)
{
    struct poll *heap = p->longest; /* the shortest of them is on top */
    size_t at;
    if (p->longest_count < p->longest_max) {
        at = p->longest_count++;
        for (; at > 0 && polls_duration(&heap[(at - 1) / 2]) > polls_duration(poll);
             at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = *poll;
        return;
    }
    if (p->longest_max == 0 || polls_duration(&heap[0]) >= polls_duration(poll))
        return;
    at = 0;
    for (size_t child; (child = 2 * at + 1) < p->longest_count; at = child) {
        if (child + 1 < p->longest_count &&
            polls_duration(&heap[child + 1]) < polls_duration(&heap[child]))
            child++;
        if (polls_duration(&heap[child]) >= polls_duration(poll))
            break;
        heap[at] = heap[child];
    }
    heap[at] = *poll;
}

static int note_cause(struct polls *p, struct polls_group *g, const struct poll *poll)
{
    uint64_t late = poll->begin_ns > poll->cause_ns ? poll->begin_ns - poll->cause_ns : 0;
    if (poll->spawned)
        return samples_add(&p->spawns, (int64_t)late);
    if (!poll->woken)
        return 0;
    g->woken++;
    p->wake_count++;
    g->late += late > POLLS_LATE_NS;
    p->late += late > POLLS_LATE_NS;
    g->latest_ns = late > g->latest_ns ? late : g->latest_ns;
    if (late >= p->latest_ns) {
        p->latest_ns = late;
        p->latest = *poll;
    }
    int err = samples_add(&g->wakes, (int64_t)late);
    return err ? err : samples_add(&p->wakes, (int64_t)late);
}

int polls_note(struct polls *p, const struct poll *poll)
{
    struct polls_group *g = &p->groups[poll->group];
    uint64_t duration = (uint64_t)polls_duration(poll);
    g->polls++;
    p->polls++;
    g->open += poll->open;
    p->open += poll->open;
    g->nested += poll->depth > 0;
    g->total_ns += duration;
    g->max_ns = duration > g->max_ns ? duration : g->max_ns;
    g->long_polls += duration > POLLS_LONG_NS;
    p->long_polls += duration > POLLS_LONG_NS;
    g->very_long += duration > POLLS_VERY_LONG_NS;
    p->very_long += duration > POLLS_VERY_LONG_NS;
    polls_time_add(&g->time, &poll->time);
    keep_longest(p, poll);
    int err = samples_add(&g->durations, (int64_t)duration);
    return err ? err : note_cause(p, g, poll);
}

/* ---- tasks ---- */

struct polls_task *polls_task_of(struct polls *p, uint64_t id, bool make)
{
    uint32_t found = map_find(&p->task_of, id);
    if (found != MAP_NONE)
        return &p->tasks[found];
    if (!make)
        return NULL;
    if (p->task_count == POLLS_MAX_TASKS || VEC_ROOM(p->tasks, p->task_count, p->task_cap) != 0 ||
        map_put(&p->task_of, id, (uint32_t)p->task_count) != 0) {
        p->untracked++;
        return NULL;
    }
    p->tasks[p->task_count] =
        (struct polls_task){.id = id, .group = POLLS_NO_GROUP, .waker_group = POLLS_NO_GROUP};
    return &p->tasks[p->task_count++];
}

/* Moves the last task into the free place. */
void polls_task_gone(struct polls *p, uint64_t id)
{
    uint32_t at = map_find(&p->task_of, id);
    if (at == MAP_NONE)
        return;
    map_remove(&p->task_of, id);
    uint32_t last = (uint32_t)--p->task_count;
    if (at == last)
        return;
    map_remove(&p->task_of, p->tasks[last].id);
    p->tasks[at] = p->tasks[last];
    (void)map_put(&p->task_of, p->tasks[at].id, at); /* two keys were removed: has room */
}

/* ---- figures over time ---- */

struct polls_series *polls_series_of(struct polls *p, enum polls_series_kind kind, uint64_t key)
{
    struct polls_series_list *l = &p->series[kind];
    uint32_t found = map_find(&l->of, key);
    if (found != MAP_NONE)
        return &l->list[found];
    if (l->count == POLLS_MAX_SERIES || VEC_ROOM(l->list, l->count, l->cap) != 0 ||
        map_put(&l->of, key, (uint32_t)l->count) != 0) {
        p->untracked++;
        return NULL;
    }
    l->list[l->count] = (struct polls_series){.key = key};
    return &l->list[l->count++];
}

static uint64_t last_of(const struct polls *p)
{
    uint64_t last = p->rec->events.last_ns;
    return p->range.given && p->range.to_ns < last ? p->range.to_ns : last;
}

/* Spreads the value since the last change over the quarters it covers. The quarters divide the
 * time from the first value to the end of the recording or of the range. */
static void hold(const struct polls *p, struct polls_series *s, uint64_t at_ns)
{
    uint64_t last = last_of(p);
    uint64_t quarter = last > s->start_ns ? (last - s->start_ns) / POLLS_QUARTERS : 0;
    for (int q = 0; q < POLLS_QUARTERS; q++) {
        uint64_t from = s->start_ns + quarter * (uint64_t)q;
        uint64_t to = q == POLLS_QUARTERS - 1 ? last : from + quarter;
        from = from > s->since_ns ? from : s->since_ns;
        to = to < at_ns ? to : at_ns;
        if (to <= from)
            continue;
        s->area[q] += (double)s->value * (double)(to - from);
        s->covered[q] += (double)(to - from);
    }
}

void polls_series_set(const struct polls *p, struct polls_series *s, uint64_t at_ns, int64_t value)
{
    if (p->range.given && at_ns >= p->range.to_ns)
        return;
    if (s->has_value)
        hold(p, s, at_ns);
    s->start_ns = s->has_value ? s->start_ns : at_ns;
    s->first = s->has_value ? s->first : value;
    s->max = !s->has_value || value > s->max ? value : s->max;
    s->min = !s->has_value || value < s->min ? value : s->min;
    s->value = value;
    s->has_value = true;
    s->since_ns = at_ns;
    s->count++;
}

void polls_series_carry(struct polls_series *s, uint64_t at_ns)
{
    *s = (struct polls_series){.key = s->key,
                               .start_ns = at_ns,
                               .since_ns = at_ns,
                               .value = s->value,
                               .first = s->value,
                               .max = s->value,
                               .min = s->value,
                               .has_value = s->has_value};
}

void polls_series_end(const struct polls *p, struct polls_series *s)
{
    if (s->has_value)
        hold(p, s, last_of(p));
}

double polls_series_mean(const struct polls_series *s, int quarter)
{
    return s->covered[quarter] > 0 ? s->area[quarter] / s->covered[quarter] : -1;
}

bool polls_series_grows(const struct polls_series *s, double least)
{
    double first = polls_series_mean(s, 0), last = polls_series_mean(s, POLLS_QUARTERS - 1);
    for (int q = 0; q < POLLS_QUARTERS; q++)
        if (s->covered[q] <= 0 || (q && polls_series_mean(s, q) <= polls_series_mean(s, q - 1)))
            return false;
    return last >= 2 * first && last - first >= least;
}

/* ---- order ---- */

struct ranked {
    uint64_t total_ns;
    uint32_t index;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return ORDER(y->total_ns, x->total_ns) ?: ORDER(x->index, y->index);
}

uint32_t *polls_sorted(const struct polls *p, size_t *count)
{
    struct ranked *ranked = calloc(p->group_count + 1, sizeof(*ranked));
    uint32_t *out = calloc(p->group_count + 1, sizeof(*out));
    *count = 0;
    for (uint32_t i = 0; ranked && i < p->group_count; i++)
        if (p->groups[i].polls > 0)
            ranked[(*count)++] = (struct ranked){p->groups[i].total_ns, i};
    if (ranked && *count)
        qsort(ranked, *count, sizeof(*ranked), compare);
    for (size_t i = 0; ranked && out && i < *count; i++)
        out[i] = ranked[i].index;
    if (!ranked) {
        free(out);
        out = NULL;
    }
    free(ranked);
    return out;
}

struct stretch_stack *polls_stacks(struct polls *p, const struct poll *poll, unsigned kind,
                                   size_t *count)
{
    const struct companion_span span = {p->tracks[poll->track].tid, poll->begin_ns, poll->end_ns};
    return stretch_stacks(p->profile, &span, p->end_ns, kind, count);
}
