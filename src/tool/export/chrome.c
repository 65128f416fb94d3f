/* The Trace Event Format, as Perfetto and Chrome's viewer read it: a JSON object with
 * `traceEvents`, each with a phase `ph`, a time `ts` in microseconds, `pid` and `tid`.
 *
 *   polls            X, complete events; nested polls are inside others
 *   parks            X of category "park", in the colour of sleep
 *   wakes            a flow, s at the wake and f at the poll that followed
 *   marks            i, instants of their thread
 *   values, queues   C, counters
 *   CPU samples      i, named by the innermost function, with the whole stack, which is also in
 *                    `stackFrames` (`sf`)
 *   off the CPU      X, in a separate process: they may begin in one poll and end in the next, and
 *                    overlapping events cannot be drawn on one line
 *   names            M, metadata
 *
 * Events are written in the order in which they are found: the format requires no order. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/cpu.h"
#include "tool/util/map.h"
#include "tool/util/json.h"
#include "tool/util/program.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum { OFF_CPU_PIDS = 1000000000 };

struct writer {
    FILE *out;
    struct buf b;
    struct polls *p;
    bool any;
    int err;
    uint64_t flows;
    /* stackFrames: a node is a function below its caller's node. */
    struct frame_node {
        const char *function;
        uint32_t parent; /* + 1; 0: none */
    } * nodes;
    size_t node_count, node_cap;
    struct map node_of;
    uint32_t *node_of_stack; /* + 1; 0: not created yet */
    const struct symbol_frame **frames;
};

/* ---- pieces ---- */

/* Writes microseconds since the start, with nanosecond precision. */
static void put_time(struct writer *w, const char *key, uint64_t ns)
{
    buf_printf(&w->b, "\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
               (unsigned)(ns % 1000));
}

static uint64_t since_start(const struct writer *w, uint64_t at_ns)
{
    return at_ns > w->p->start_ns ? at_ns - w->p->start_ns : 0;
}

/* Writes the start of an event, up to its arguments. */
static void begin(struct writer *w, const char *phase, const char *category, uint64_t pid,
                  uint64_t tid, uint64_t at_ns)
{
    buf_printf(&w->b, "%s{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":%llu,\"tid\":%llu,",
               w->any ? ",\n" : "\n", phase, category, (unsigned long long)pid,
               (unsigned long long)tid);
    w->any = true;
    put_time(w, "ts", since_start(w, at_ns));
}

static void put_name(struct writer *w, const char *name)
{
    buf_puts(&w->b, ",\"name\":");
    json_put_string(&w->b, name);
}

static void finish(struct writer *w)
{
    buf_putc(&w->b, '}');
    int err = buf_flush(&w->b, w->out, false);
    w->err = w->err ? w->err : err;
}

static uint64_t pid_of(const struct writer *w)
{
    return w->p->rec->header.pid;
}

static uint64_t tid_of(const struct writer *w, uint32_t track)
{
    return w->p->tracks[track].tid;
}

/* ---- events ---- */

static void put_flow(struct writer *w, const struct poll *poll)
{
    w->flows++;
    begin(w, "s", "wake", pid_of(w), tid_of(w, poll->waker_track), poll->cause_ns);
    buf_printf(&w->b, ",\"id\":%llu,\"name\":\"wake\"", (unsigned long long)w->flows);
    finish(w);
    begin(w, "f", "wake", pid_of(w), tid_of(w, poll->track), poll->begin_ns);
    buf_printf(&w->b, ",\"id\":%llu,\"bp\":\"e\",\"name\":\"wake\"", (unsigned long long)w->flows);
    finish(w);
}

static void on_poll(void *ctx, const struct polls *p, const struct poll *poll)
{
    struct writer *w = ctx;
    const struct polls_group *g = &p->groups[poll->group];
    double on = polls_on_cpu(p, &poll->time, (uint64_t)polls_duration(poll));
    begin(w, "X", "poll", pid_of(w), tid_of(w, poll->track), poll->begin_ns);
    buf_putc(&w->b, ',');
    put_time(w, "dur", (uint64_t)polls_duration(poll));
    put_name(w, g->name);
    buf_printf(&w->b, ",\"args\":{\"task\":\"%llu\"", (unsigned long long)poll->task);
    if (on >= 0)
        buf_printf(&w->b, ",\"on_cpu\":%.3f", on);
    if (poll->open)
        buf_puts(&w->b, ",\"open\":true");
    if (poll->woken)
        buf_printf(&w->b, ",\"late_us\":%.3f", (double)(poll->begin_ns - poll->cause_ns) / 1e3);
    buf_putc(&w->b, '}');
    finish(w);
    if (poll->woken)
        put_flow(w, poll);
}

static void on_park(void *ctx, const struct polls *p, uint32_t track, uint64_t to_ns)
{
    char name[32] = "park";
    struct writer *w = ctx;
    const struct polls_track *t = &p->tracks[track];
    begin(w, "X", "park", pid_of(w), t->tid, t->park_ns);
    buf_putc(&w->b, ',');
    put_time(w, "dur", to_ns - t->park_ns);
    if (t->park_kind > 0 && t->park_kind < PIANO_PARKS)
        snprintf(name, sizeof(name), "park: %s", polls_park_names[t->park_kind]);
    put_name(w, name);
    buf_puts(&w->b, ",\"cname\":\"thread_state_sleeping\"");
    finish(w);
}

static void put_mark(struct writer *w, const struct recording_event *e, const char *name)
{
    begin(w, "i", "mark", pid_of(w), tid_of(w, e->track), e->at_ns);
    put_name(w, name);
    buf_puts(&w->b, ",\"s\":\"t\"");
    finish(w);
}

static void put_counter(struct writer *w, const struct recording_event *e, const char *name,
                        const char *series, int64_t value)
{
    begin(w, "C", "value", pid_of(w), tid_of(w, e->track), e->at_ns);
    put_name(w, name);
    buf_printf(&w->b, ",\"args\":{\"%s\":%lld}", series, (long long)value);
    finish(w);
}

static const char *event_named(const struct polls *p, event_name id)
{
    const char *name = recording_name_of(p->rec, id);
    return name ? name : "(no name)";
}

static void on_event(void *ctx, const struct polls *p, const struct recording_event *e)
{
    struct writer *w = ctx;
    char text[64];
    switch (e->code) {
    case PIANO_EVENT_MARK:
        put_mark(w, e, event_named(p, e->mark.name));
        break;
    case PIANO_EVENT_VALUE:
        put_counter(w, e, event_named(p, e->value.name), "value", e->value.value);
        break;
    case PIANO_EVENT_QUEUE:
        snprintf(text, sizeof(text), "queue %llu", (unsigned long long)e->queue.queue);
        put_counter(w, e, text, "depth", e->queue.depth);
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

/* ---- samples ---- */

/* The node of FUNCTION below PARENT, + 1; 0 when out of memory. */
static uint32_t node_of(struct writer *w, const char *function, uint32_t parent)
{
    /* The key may collide, so the node is compared too. */
    uint64_t key = (uint64_t)(uintptr_t)function * 0x9e3779b97f4a7c15u ^ parent;
    uint32_t found;
    while ((found = map_find(&w->node_of, key)) != MAP_NONE) {
        if (w->nodes[found].function == function && w->nodes[found].parent == parent)
            return found + 1;
        key++;
    }
    if (VEC_ROOM(w->nodes, w->node_count, w->node_cap) != 0 ||
        map_put(&w->node_of, key, (uint32_t)w->node_count) != 0)
        return 0;
    w->nodes[w->node_count++] = (struct frame_node){function, parent};
    return (uint32_t)w->node_count;
}

/* The node of the innermost frame of STACK, + 1; 0: out of memory. */
static uint32_t stack_node(struct writer *w, uint32_t stack)
{
    if (w->node_of_stack[stack])
        return w->node_of_stack[stack];
    if (profile_name_stack(w->p->profile, stack) != 0)
        return 0;
    uint32_t node = 0;
    for (size_t i = profile_frames(w->p->profile, stack, w->frames); i-- > 0;) {
        node = node_of(w, w->frames[i]->function, node);
        if (node == 0)
            return 0;
    }
    w->node_of_stack[stack] = node;
    return node;
}

/* "leaf < caller < ... < root" */
static void put_stack(struct writer *w, uint32_t node)
{
    struct buf text = {0};
    for (const char *between = ""; node; node = w->nodes[node - 1].parent, between = " < ")
        buf_printf(&text, "%s%s", between, w->nodes[node - 1].function);
    json_put_string(&w->b, text.data ? text.data : "");
    w->b.failed |= text.failed;
    buf_free(&text);
}

static void put_sample(struct writer *w, const struct recording_sample *s)
{
    bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
    uint32_t node = stack_node(w, s->stack);
    if (node == 0) {
        w->err = w->err ? w->err : -ENOMEM;
        return;
    }
    begin(w, cpu ? "i" : "X", cpu ? "cpu" : "off-cpu",
          cpu ? s->pid : (uint64_t)s->pid + OFF_CPU_PIDS, s->tid, s->at_ns);
    if (cpu) {
        buf_puts(&w->b, ",\"s\":\"t\"");
    } else {
        uint64_t to = s->value ? s->at_ns + s->value : w->p->end_ns;
        buf_putc(&w->b, ',');
        /* The thread may have left its CPU before the recording began. */
        put_time(w, "dur", to > s->at_ns ? since_start(w, to) - since_start(w, s->at_ns) : 0);
    }
    put_name(w, !cpu && preempted ? "waiting for a CPU" : w->nodes[node - 1].function);
    buf_printf(&w->b, ",\"sf\":\"%u\",\"args\":{\"stack\":", node);
    put_stack(w, node);
    if (cpu)
        buf_printf(&w->b, ",\"cpu\":%u,\"ms\":%.3f}", s->cpu, (double)s->value / 1e6);
    else
        buf_puts(&w->b, "}");
    finish(w);
}

static void put_frames(struct writer *w)
{
    buf_puts(&w->b, "],\n\"stackFrames\":{");
    for (size_t i = 0; i < w->node_count; i++) {
        buf_printf(&w->b, "%s\"%zu\":{\"category\":\"cpu\",\"name\":", i ? ",\n" : "\n", i + 1);
        json_put_string(&w->b, w->nodes[i].function);
        if (w->nodes[i].parent)
            buf_printf(&w->b, ",\"parent\":\"%u\"", w->nodes[i].parent);
        buf_putc(&w->b, '}');
    }
    buf_puts(&w->b, "}");
}

/* ---- names ---- */

static void put_metadata(struct writer *w, const char *what, uint64_t pid, uint64_t tid,
                         const char *name)
{
    buf_printf(&w->b,
               "%s{\"ph\":\"M\",\"pid\":%llu,\"tid\":%llu,\"ts\":0,\"name\":\"%s\","
               "\"args\":{\"name\":",
               w->any ? ",\n" : "\n", (unsigned long long)pid, (unsigned long long)tid, what);
    w->any = true;
    json_put_string(&w->b, name);
    buf_putc(&w->b, '}');
    finish(w);
}

static void put_process(struct writer *w, uint32_t pid, bool off)
{
    const struct recording *rec = w->p->rec;
    char own[PIANO_REC_PATH];
    program_called(own, sizeof(own), rec->header.program, rec->header.command);
    const struct recording_thread *t = recording_thread_of(rec, pid);
    const char *name = pid == rec->header.pid && *rec->header.program ? own
                       : t && t->name[0]                              ? t->name
                                                                      : "process";
    struct buf text = {0};
    buf_printf(&text, "%s%s", name, off ? ": off the CPU" : "");
    put_metadata(w, "process_name", (uint64_t)pid + (off ? OFF_CPU_PIDS : 0), pid,
                 text.data ? text.data : name);
    buf_free(&text);
}

static void put_names(struct writer *w)
{
    const struct recording *rec = w->p->rec;
    struct map seen = {.slots = NULL};
    char name[200];
    put_process(w, rec->header.pid, false);
    for (uint32_t i = 0; i < rec->events.track_count; i++)
        put_metadata(w, "thread_name", pid_of(w), tid_of(w, i),
                     polls_thread_name(name, sizeof(name), w->p, i));
    for (size_t i = 0; i < rec->sample_count; i++) {
        const struct recording_sample *s = &rec->samples[i];
        bool off = s->kind == PIANO_SAMPLE_OFF;
        uint64_t process = (uint64_t)s->pid << 1 | off;
        uint64_t thread = (uint64_t)s->tid << 1 | off | (uint64_t)1 << 40;
        if (map_find(&seen, process) == MAP_NONE && map_put(&seen, process, 0) == 0 &&
            (off || s->pid != rec->header.pid))
            put_process(w, s->pid, off);
        if (map_find(&seen, thread) == MAP_NONE && map_put(&seen, thread, 0) == 0)
            put_metadata(w, "thread_name", (uint64_t)s->pid + (off ? OFF_CPU_PIDS : 0), s->tid,
                         cpu_thread_name(name, sizeof(name), rec, s->tid));
    }
    map_release(&seen);
}

/* ---- all ---- */

static void put_all(struct writer *w)
{
    const struct recording *rec = w->p->rec;
    const struct polls_listener listener = {on_poll, on_park, on_event, w};
    buf_puts(&w->b,
             "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made_by\":\"piano\",\"program\":");
    json_put_string(&w->b, rec->header.program);
    if (rec->range.given)
        buf_printf(&w->b, ",\"range_ns\":[%llu,%llu]",
                   (unsigned long long)since_start(w, rec->range.from_ns),
                   (unsigned long long)since_start(w, rec->range.to_ns));
    buf_puts(&w->b, "},\n\"traceEvents\":[");
    int err = polls_go(w->p, &listener);
    w->err = w->err ? w->err : err;
    for (size_t i = 0; i < rec->sample_count && w->err == 0; i++) {
        struct recording_sample part;
        if (recording_clip(rec, &rec->samples[i], &part))
            put_sample(w, &part);
    }
    if (w->err == 0)
        put_names(w);
    put_frames(w);
    buf_puts(&w->b, "}\n");
}

int export_chrome(FILE *out, struct polls *p)
{
    struct writer w = {.out = out, .p = p};
    w.node_of_stack = calloc(p->rec->stack_count + 1, sizeof(*w.node_of_stack));
    w.frames = calloc(PROFILE_MAX_FRAMES, sizeof(*w.frames));
    if (w.node_of_stack && w.frames)
        put_all(&w);
    else
        w.err = -ENOMEM;
    if (w.err == 0)
        w.err = buf_flush(&w.b, out, true);
    say_progress_done();
    map_release(&w.node_of);
    free(w.nodes);
    free(w.node_of_stack);
    free(w.frames);
    buf_free(&w.b);
    return w.err;
}
