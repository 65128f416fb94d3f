/* The Trace Event Format, as Perfetto, Chrome's viewers and the Firefox Profiler read it: a JSON
 * object with `traceEvents`.
 *
 *   polls            X, complete events; nested polls are inside others
 *   parks            X of category "park", in the colour of sleep
 *   wakes            a flow, s at the wake and f at the poll that followed
 *   marks            i, instants of their thread
 *   values, queues   C, counters; also the heap at snapshots
 *   CPU samples      P, profiles as V8 writes them, one for each thread (chrome_samples.c)
 *   off the CPU      X of category "blocked" or "preempted", in a process of its own: they may begin
 *                    in one poll and end in the next
 *   frames           X of category "frame" (chrome_run.c)
 *   names            M, metadata
 *
 * Events are written in the order in which they are found: the format requires no order. */
#include "tool/export/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"

/* ---- pieces ---- */

void trace_put_time(struct trace *w, const char *key, uint64_t ns)
{
    buf_printf(&w->b, "\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
               (unsigned)(ns % 1000));
}

uint64_t trace_since(const struct trace *w, uint64_t at_ns)
{
    return at_ns > w->start_ns ? at_ns - w->start_ns : 0;
}

void trace_keep_error(struct trace *w, int err)
{
    w->err = w->err ? w->err : err;
}

static void put_start(struct trace *w, const char *phase, uint64_t pid, uint64_t tid)
{
    buf_printf(&w->b, "%s{\"ph\":\"%s\",\"pid\":%llu,\"tid\":%llu,", w->any ? ",\n" : "\n", phase,
               (unsigned long long)pid, (unsigned long long)tid);
    w->any = true;
}

void trace_begin(struct trace *w, const char *phase, const char *category, uint64_t pid,
                 uint64_t tid, uint64_t at_ns)
{
    put_start(w, phase, pid, tid);
    buf_printf(&w->b, "\"cat\":\"%s\",", category);
    trace_put_time(w, "ts", trace_since(w, at_ns));
}

void trace_put_name(struct trace *w, const char *name)
{
    buf_puts(&w->b, ",\"name\":");
    json_put_string(&w->b, name);
}

void trace_end(struct trace *w)
{
    buf_putc(&w->b, '}');
    trace_keep_error(w, buf_flush(&w->b, w->out, false));
}

void trace_put_metadata(struct trace *w, const char *what, uint64_t pid, uint64_t tid,
                        const char *name)
{
    put_start(w, "M", pid, tid);
    buf_printf(&w->b, "\"ts\":0,\"name\":\"%s\",\"args\":{\"name\":", what);
    json_put_string(&w->b, name);
    buf_putc(&w->b, '}');
    trace_end(w);
}

void trace_put_counter(struct trace *w, const char *category, uint64_t pid, uint64_t tid,
                       uint64_t at_ns, const char *name, const char *series, int64_t value)
{
    trace_begin(w, "C", category, pid, tid, at_ns);
    trace_put_name(w, name);
    buf_printf(&w->b, ",\"args\":{\"%s\":%lld}", series, (long long)value);
    trace_end(w);
}

static uint64_t pid_of(const struct trace *w, uint32_t track)
{
    const struct recording_process *process = recording_track_process(w->rec, track);
    return process ? process->pid : w->rec->header.pid;
}

static uint64_t tid_of(const struct trace *w, uint32_t track)
{
    return w->p->tracks[track].tid;
}

/* ---- events ---- */

static void put_flow(struct trace *w, const struct poll *poll)
{
    w->flows++;
    trace_begin(w, "s", "wake", pid_of(w, poll->waker_track), tid_of(w, poll->waker_track),
                poll->cause_ns);
    buf_printf(&w->b, ",\"id\":%llu,\"name\":\"wake\"", (unsigned long long)w->flows);
    trace_end(w);
    trace_begin(w, "f", "wake", pid_of(w, poll->track), tid_of(w, poll->track), poll->begin_ns);
    buf_printf(&w->b, ",\"id\":%llu,\"bp\":\"e\",\"name\":\"wake\"", (unsigned long long)w->flows);
    trace_end(w);
}

static void on_poll(void *ctx, const struct polls *p, const struct poll *poll)
{
    struct trace *w = ctx;
    const struct polls_group *g = &p->groups[poll->group];
    double on = polls_on_cpu(p, &poll->time, (uint64_t)polls_duration(poll));
    trace_begin(w, "X", "poll", pid_of(w, poll->track), tid_of(w, poll->track), poll->begin_ns);
    buf_putc(&w->b, ',');
    trace_put_time(w, "dur", (uint64_t)polls_duration(poll));
    trace_put_name(w, g->name);
    buf_printf(&w->b, ",\"args\":{\"task\":\"%llu\"",
               (unsigned long long)recording_own_id(w->rec, poll->task));
    if (on >= 0)
        buf_printf(&w->b, ",\"on_cpu\":%.3f", on);
    if (poll->open)
        buf_puts(&w->b, ",\"open\":true");
    if (poll->woken)
        buf_printf(&w->b, ",\"late_us\":%.3f", (double)(poll->begin_ns - poll->cause_ns) / 1e3);
    buf_putc(&w->b, '}');
    trace_end(w);
    if (poll->woken)
        put_flow(w, poll);
}

static void on_park(void *ctx, const struct polls *p, uint32_t track, uint64_t to_ns)
{
    char name[32] = "park";
    struct trace *w = ctx;
    const struct polls_track *t = &p->tracks[track];
    trace_begin(w, "X", "park", pid_of(w, track), t->tid, t->park_ns);
    buf_putc(&w->b, ',');
    trace_put_time(w, "dur", to_ns - t->park_ns);
    if (t->park_kind > 0 && t->park_kind < PIANO_PARKS)
        snprintf(name, sizeof(name), "park: %s", polls_park_names[t->park_kind]);
    trace_put_name(w, name);
    buf_puts(&w->b, ",\"cname\":\"thread_state_sleeping\"");
    trace_end(w);
}

static void put_mark(struct trace *w, const struct recording_event *e, const char *name)
{
    trace_begin(w, "i", "mark", pid_of(w, e->track), tid_of(w, e->track), e->at_ns);
    trace_put_name(w, name);
    buf_puts(&w->b, ",\"s\":\"t\"");
    trace_end(w);
}

static void put_value(struct trace *w, const struct recording_event *e, const char *name,
                      const char *series, int64_t value)
{
    trace_put_counter(w, "value", pid_of(w, e->track), tid_of(w, e->track), e->at_ns, name, series,
                      value);
}

static const char *event_named(const struct polls *p, event_name id)
{
    const char *name = recording_name_of(p->rec, id);
    return name ? name : "(no name)";
}

static void on_event(void *ctx, const struct polls *p, const struct recording_event *e)
{
    struct trace *w = ctx;
    char text[64];
    switch (e->code) {
    case PIANO_EVENT_MARK:
        put_mark(w, e, event_named(p, e->mark.name));
        break;
    case PIANO_EVENT_VALUE:
        put_value(w, e, event_named(p, e->value.name), "value", e->value.value);
        break;
    case PIANO_EVENT_QUEUE:
        snprintf(text, sizeof(text), "queue %llu",
                 (unsigned long long)recording_own_id(w->rec, e->queue.queue));
        put_value(w, e, text, "depth", e->queue.depth);
        break;
    case PIANO_EVENT_POLL_BEGIN: /* on_poll */
    case PIANO_EVENT_POLL_END:
    case PIANO_EVENT_WAKE:
    case PIANO_EVENT_TASK_SPAWN:
    case PIANO_EVENT_TASK_END:
    case PIANO_EVENT_PARK: /* on_park */
    case PIANO_EVENT_UNPARK:
    case PIANO_EVENT_WORKER_START: /* put_names */
    case PIANO_EVENT_WORKER_STOP:
    case PIANO_EVENT_THREAD:
    case PIANO_EVENT_UNKNOWN:
        break;
    }
}

/* ---- memory ---- */

static void put_heap(struct trace *w)
{
    const struct recording *rec = w->rec;
    uint64_t pid = rec->header.pid;
    if (!recording_is_one_heap(rec))
        return; /* no snapshots of one moment */
    for (size_t i = 0; i < rec->snapshot_count; i++) {
        const struct recording_snapshot *s = &rec->snapshots[i];
        if (!range_has(&rec->range, s->at_ns))
            continue;
        trace_put_counter(w, "heap", pid, pid, s->at_ns, "heap: live bytes", "bytes",
                          figure_whole(s->live_bytes));
        if (s->resident_bytes)
            trace_put_counter(w, "heap", pid, pid, s->at_ns, "resident bytes", "bytes",
                              figure_whole((double)s->resident_bytes));
    }
}

/* ---- all ---- */

static void put_names(struct trace *w)
{
    char name[PIANO_REC_PATH], thread[200];
    uint32_t own = w->rec->header.pid;
    trace_put_metadata(w, "process_name", own, own, export_process_name(name, w->rec, own));
    for (size_t i = 0; i < w->rec->process_count; i++) {
        uint32_t pid = w->rec->processes[i].pid;
        if (pid != own)
            trace_put_metadata(w, "process_name", pid, pid, export_process_name(name, w->rec, pid));
    }
    for (uint32_t i = 0; i < w->rec->events.track_count; i++)
        trace_put_metadata(w, "thread_name", pid_of(w, i), tid_of(w, i),
                           polls_thread_name(thread, sizeof(thread), w->p, i));
}

static void put_recording(struct trace *w)
{
    const struct polls_listener listener = {on_poll, on_park, on_event, w};
    trace_keep_error(w, polls_go(w->p, &listener));
    if (w->err == 0)
        put_names(w);
    if (w->s->heap)
        put_heap(w);
    trace_put_samples(w);
}

static void put_all(struct trace *w)
{
    char name[PIANO_REC_PATH];
    buf_puts(&w->b,
             "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made_by\":\"piano\",\"program\":");
    json_put_string(&w->b, w->rec ? w->rec->header.program : export_program(name, w->s));
    if (w->rec && w->rec->range.given)
        buf_printf(&w->b, ",\"range_ns\":[%llu,%llu]",
                   (unsigned long long)trace_since(w, w->rec->range.from_ns),
                   (unsigned long long)trace_since(w, w->rec->range.to_ns));
    buf_puts(&w->b, "},\n\"traceEvents\":[");
    if (w->rec)
        put_recording(w);
    if (w->s->run)
        trace_put_run(w);
    buf_puts(&w->b, "],\n\"stackFrames\":{");
    trace_put_stacks(w);
    buf_puts(&w->b, "}}\n");
}

int export_chrome(FILE *out, const struct export_source *s)
{
    struct trace w = {.out = out, .s = s, .p = s->polls};
    w.rec = s->profile ? &s->profile->rec : NULL;
    w.start_ns = w.p ? w.p->start_ns : 0;
    w.err = export_nodes_start(&w.nodes, s->profile, false);
    if (w.err == 0)
        put_all(&w);
    if (w.err == 0)
        w.err = buf_flush(&w.b, out, true);
    say_progress_done();
    export_nodes_release(&w.nodes);
    buf_free(&w.b);
    return w.err;
}
