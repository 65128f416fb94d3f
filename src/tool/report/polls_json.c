/* `piano report --polls --json`; docs/json.md describes every key. Times count from the start of
 * the recording; unknown values are null. */
#include "tool/report/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"

static void put_maybe(struct buf *b, const char *key, bool known, uint64_t value)
{
    if (known)
        json_put_count(b, key, value);
    else
        buf_printf(b, "\"%s\":null,", key);
}

static void put_share(struct buf *b, const char *key, double share)
{
    if (share < 0)
        buf_printf(b, "\"%s\":null,", key);
    else
        buf_printf(b, "\"%s\":%.6f,", key, share);
}

static void put_moment(struct buf *b, const char *key, const struct polls *p, uint64_t at_ns)
{
    put_maybe(b, key, at_ns >= p->start_ns, at_ns - p->start_ns);
}

static void put_bool(struct buf *b, const char *key, bool value)
{
    buf_printf(b, "\"%s\":%s,", key, value ? "true" : "false");
}

/* Removes the comma after the last member. */
static void close_object(struct buf *b)
{
    if (b->len > 0 && b->data[b->len - 1] == ',')
        b->data[--b->len] = '\0';
    buf_putc(b, '}');
}

/* Thread, tid, worker. */
static void put_thread(struct buf *b, const struct polls *p, const char *key, uint32_t track)
{
    const struct polls_track *t = &p->tracks[track];
    char name[200];
    json_put_text(b, key, polls_thread_name(name, sizeof(name), p, track));
    json_put_count(b, "tid", t->tid);
    put_maybe(b, "worker", t->is_worker, t->worker);
}

static void put_percentiles(struct buf *b, struct samples *s, uint64_t max)
{
    put_maybe(b, "p50_ns", s->count > 0, (uint64_t)samples_percentile(s, 0.50));
    put_maybe(b, "p99_ns", s->count > 0, (uint64_t)samples_percentile(s, 0.99));
    put_maybe(b, "max_ns", s->count > 0, max);
}

static void put_time(struct buf *b, const struct polls *p, const struct polls_time *time,
                     uint64_t total_ns)
{
    put_share(b, "on_cpu", polls_on_cpu(p, time, total_ns));
    json_put_count(b, "samples", time->cpu_samples);
    json_put_count(b, "cpu_ns", time->cpu_ns);
    put_maybe(b, "off_cpu_ns", p->exact, time->off_ns);
    put_maybe(b, "run_queue_ns", p->exact, time->preempted_ns);
    json_put_count(b, "waited_ns", time->waited_ns);
}

static void put_flags(struct buf *b, const struct polls_flags *flags)
{
    buf_puts(b, "\"flags\":[");
    for (size_t i = 0; i < flags->count; i++) {
        const struct polls_flag *f = &flags->list[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "kind", polls_flag_names[f->kind]);
        json_put_text(b, "text", f->text);
        json_put_text(b, "subject", f->subject);
        json_put_count(b, "count", f->count);
        put_maybe(b, "worst_ns", f->worst_ns > 0, f->worst_ns);
        close_object(b);
    }
    buf_puts(b, "],\n");
}

static int put_tasks(struct buf *b, FILE *out, struct polls *p, const struct report_options *o)
{
    static const char *const kinds[] = {"task", "place", "callback", "loop", "unnamed"};
    size_t count = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    int err = sorted ? 0 : -ENOMEM;
    count = o->top && count > o->top ? o->top : count;
    buf_puts(b, "\"tasks\":[");
    for (size_t i = 0; i < count && err == 0; i++) {
        struct polls_group *g = &p->groups[sorted[i]];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "name", g->name);
        json_put_text(b, "kind", kinds[g->kind]);
        json_put_count(b, "polls", g->polls);
        put_percentiles(b, &g->durations, g->max_ns);
        json_put_count(b, "total_ns", g->total_ns);
        put_time(b, p, &g->time, g->total_ns);
        json_put_count(b, "open", g->open);
        json_put_count(b, "nested", g->nested);
        json_put_count(b, "long", g->long_polls);
        json_put_count(b, "very_long", g->very_long);
        json_put_count(b, "spawned", g->spawned);
        json_put_count(b, "ended", g->ended);
        json_put_count(b, "woken", g->woken);
        json_put_count(b, "late", g->late);
        buf_puts(b, "\"wake\":{");
        put_percentiles(b, &g->wakes, g->latest_ns);
        close_object(b);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "],\n");
    free(sorted);
    return err;
}

static void put_mostly(struct buf *b, const struct polls *p, const struct stretch_stack *list,
                       size_t count, const struct symbol_frame **frames)
{
    struct stretch_mostly m;
    b->failed |= stretch_mostly(&m, p->profile, list, count, frames) != 0;
    if (!m.function) {
        buf_puts(b, "\"mostly\":null,");
        return;
    }
    buf_puts(b, "\"mostly\":{");
    json_put_text(b, "function", m.function);
    json_put_count(b, "samples", m.samples);
    put_share(b, "share", (double)m.samples / (double)m.all);
    close_object(b);
    buf_putc(b, ',');
}

static void put_stacks(struct buf *b, struct polls *p, const struct poll *poll, unsigned kind,
                       const struct symbol_frame **frames)
{
    size_t count = 0;
    struct stretch_stack *list = polls_stacks(p, poll, kind, &count);
    buf_printf(b, "\"%s\":[", kind == PIANO_SAMPLE_CPU ? "stacks" : "blocked");
    for (size_t i = 0; i < count; i++) {
        buf_puts(b, i ? "," : "");
        buf_printf(b, "{\"samples\":%llu,\"%s\":%llu,", (unsigned long long)list[i].samples,
                   kind == PIANO_SAMPLE_CPU ? "cpu_ns" : "off_cpu_ns",
                   (unsigned long long)list[i].ns);
        if (kind == PIANO_SAMPLE_OFF)
            put_bool(b, "preempted", list[i].preempted);
        heap_put_frames(b, p->profile, list[i].stack, frames);
        buf_putc(b, '}');
    }
    buf_puts(b, "],");
    if (kind == PIANO_SAMPLE_CPU)
        put_mostly(b, p, list, count, frames);
    free(list);
}

static void put_cause(struct buf *b, const struct polls *p, const struct poll *poll)
{
    buf_puts(b, "\"cause\":");
    if (!poll->woken && !poll->spawned) {
        buf_puts(b, "null");
        return;
    }
    buf_putc(b, '{');
    json_put_text(b, "kind", poll->woken ? "wake" : "spawn");
    put_moment(b, "at_ns", p, poll->cause_ns);
    json_put_count(b, "late_ns", poll->begin_ns - poll->cause_ns);
    put_thread(b, p, "thread", poll->waker_track);
    json_put_text(b, "task",
                  poll->waker_group == POLLS_NO_GROUP ? NULL : p->groups[poll->waker_group].name);
    close_object(b);
}

static int put_longest(struct buf *b, FILE *out, struct polls *p)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    int err = frames ? 0 : -ENOMEM;
    buf_puts(b, "\"longest\":[");
    for (size_t i = 0; i < p->longest_count && err == 0; i++) {
        const struct poll *poll = &p->longest[i];
        const struct polls_group *g = &p->groups[poll->group];
        uint64_t duration = (uint64_t)polls_duration(poll);
        buf_puts(b, i ? ",\n{" : "\n{");
        put_moment(b, "start_ns", p, poll->begin_ns);
        json_put_count(b, "duration_ns", duration);
        put_thread(b, p, "thread", poll->track);
        json_put_text(b, "task", g->name);
        put_maybe(b, "task_id", g->kind != POLLS_LOOP, poll->task);
        put_bool(b, "open", poll->open);
        json_put_count(b, "depth", poll->depth);
        put_maybe(b, "wait_returned", poll->returned > 0, poll->returned - 1);
        put_time(b, p, &poll->time, duration);
        put_stacks(b, p, poll, PIANO_SAMPLE_CPU, frames);
        put_stacks(b, p, poll, PIANO_SAMPLE_OFF, frames);
        put_cause(b, p, poll);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "],\n");
    free(frames);
    return err;
}

static void put_parked_by(struct buf *b, const struct polls_track *t)
{
    buf_puts(b, "\"parked_by\":{");
    const char *comma = "";
    for (size_t kind = 0; kind < PIANO_PARKS; kind++) {
        if (t->parked_by[kind] == 0)
            continue;
        buf_printf(b, "%s\"%s\":%llu", comma, polls_park_names[kind],
                   (unsigned long long)t->parked_by[kind]);
        comma = ",";
    }
    buf_puts(b, "},");
}

static void put_threads(struct buf *b, const struct polls *p)
{
    buf_puts(b, "\"threads\":[");
    for (uint32_t i = 0; i < p->rec->events.track_count; i++) {
        const struct polls_track *t = &p->tracks[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        put_thread(b, p, "name", i);
        json_put_text(b, "loop", t->loop >= 0 ? polls_park_names[t->loop] : NULL);
        json_put_count(b, "events", p->rec->events.tracks[i].events);
        json_put_count(b, "polls", t->polls);
        json_put_count(b, "busy_ns", t->busy_ns);
        json_put_count(b, "parks", t->parks);
        json_put_count(b, "parked_ns", t->parked_ns);
        put_parked_by(b, t);
        json_put_count(b, "longest_park_ns", t->park_max_ns);
        put_maybe(b, "park_cpu_ns", p->exact, t->park_cpu_ns);
        put_maybe(b, "park_run_queue_ns", p->exact, t->park_time.preempted_ns);
        put_maybe(b, "starved_ns", t->is_worker, t->starved_ns);
        close_object(b);
    }
    buf_puts(b, "],\n\"workers\":[");
    for (size_t i = 0; i < p->worker_count; i++) {
        const struct polls_worker *w = &p->workers[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_count(b, "worker", w->worker);
        json_put_text(b, "name", recording_name_of(p->rec, w->name));
        json_put_count(b, "tid", p->tracks[w->track].tid);
        put_moment(b, "start_ns", p, w->from_ns);
        put_maybe(b, "end_ns", w->to_ns > 0, w->to_ns - p->start_ns);
        close_object(b);
    }
    buf_puts(b, "],\n");
}

struct series_kind {
    const char *key;    /* of the list */
    const char *number; /* key of the number of a series; NULL: it has a name */
    bool values, quarters;
};

#define SERIES_KIND(kind, key, number, values, quarters) [kind] = {key, number, values, quarters},
static const struct series_kind series_kinds[] = {POLLS_SERIES_LIST(SERIES_KIND)};

static void put_quarters(struct buf *b, const struct polls_series *s)
{
    buf_puts(b, "\"quarters\":[");
    for (int q = 0; q < POLLS_QUARTERS; q++)
        if (s->covered[q] > 0)
            buf_printf(b, "%s%.3f", q ? "," : "", polls_series_mean(s, q));
        else
            buf_printf(b, "%snull", q ? "," : "");
    buf_puts(b, "],");
}

static void put_series(struct buf *b, const struct polls *p, enum polls_series_kind kind)
{
    const struct series_kind *k = &series_kinds[kind];
    buf_printf(b, "\"%s\":[", k->key);
    for (size_t i = 0; i < p->series[kind].count; i++) {
        const struct polls_series *s = &p->series[kind].list[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        if (k->number)
            json_put_count(b, k->number, s->key);
        else
            json_put_text(b, "name", recording_name_of(p->rec, s->key));
        json_put_count(b, "count", s->count);
        if (k->values)
            buf_printf(b, "\"first\":%lld,\"last\":%lld,\"min\":%lld,\"max\":%lld,",
                       (long long)s->first, (long long)s->value, (long long)s->min,
                       (long long)s->max);
        if (k->quarters)
            put_quarters(b, s);
        close_object(b);
    }
    buf_puts(b, "],\n");
}

static void put_summary(struct buf *b, struct polls *p)
{
    static const char *const sources[] = {"none", "cpu-clock", "cycles", "timers"};
    const struct piano__trace *t = &p->rec->header.trace;
    json_put_count(b, "polls", p->polls);
    buf_puts(b, "\"wakes\":{");
    json_put_count(b, "count", p->wake_count);
    json_put_count(b, "late", p->late);
    put_percentiles(b, &p->wakes, p->latest_ns);
    close_object(b);
    buf_puts(b, ",\"spawn_to_poll\":{");
    json_put_count(b, "count", p->spawns.count);
    put_percentiles(b, &p->spawns, (uint64_t)samples_percentile(&p->spawns, 1.0));
    close_object(b);
    buf_puts(b, ",\"events\":{");
    json_put_count(b, "count", p->rec->events.count);
    json_put_count(b, "unknown", p->rec->events.unknown);
    json_put_count(b, "unreadable_fields", p->rec->events.bad);
    json_put_count(b, "stray_ends", p->stray_ends);
    json_put_count(b, "too_deep", p->too_deep);
    json_put_count(b, "untracked", p->untracked);
    json_put_text(b, "clock", p->rec->events.clock.counter ? "counter" : "monotonic");
    put_bool(b, "rough_clock", p->rec->events.clock.rough);
    close_object(b);
    buf_puts(b, ",\"cpu\":{");
    json_put_text(b, "source", sources[t->cpu_source < 4 ? t->cpu_source : 0]);
    json_put_count(b, "hz", t->cpu_hz);
    json_put_count(b, "samples", p->rec->cpu_samples);
    json_put_count(b, "switches", p->rec->off_samples);
    json_put_count(b, "lost", t->samples_lost);
    json_put_count(b, "given_up", p->rec->header.samples_given_up);
    close_object(b);
    buf_puts(b, ",\"dropped\":{");
    json_put_count(b, "memory", t->dropped_memory);
    json_put_count(b, "busy", t->dropped_busy);
    json_put_count(b, "names", t->dropped_names);
    json_put_count(b, "recycled_chunks", t->recycled);
    close_object(b);
    buf_puts(b, ",\n");
}

int polls_report_json(FILE *out, struct polls *p, const struct report_options *o)
{
    struct polls_flags flags;
    struct buf b = {0};
    int err = polls_flags_make(&flags, p);
    buf_putc(&b, '{');
    put_flags(&b, &flags);
    if (err == 0)
        err = put_tasks(&b, out, p, o);
    if (err == 0)
        err = put_longest(&b, out, p);
    put_threads(&b, p);
    for (int i = 0; i < POLLS_SERIES_KINDS; i++)
        put_series(&b, p, (enum polls_series_kind)i);
    put_summary(&b, p);
    heap_put_missing(&b, p->rec);
    buf_puts(&b, ",\n");
    heap_put_run(&b, p->rec);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    polls_flags_release(&flags);
    say_progress_done();
    return err;
}
