/* CPU samples in a trace are what V8 writes for Chrome: for each thread an event "Profile" that gives
 * it a number, then events "ProfileChunk" with new nodes of the call tree, samples as numbers of
 * nodes, and the microseconds from each sample to the next.
 *
 * A node counts from its sample to the next one. So a sample of piano, which stands for the time
 * before it, is two of V8: its node where that time begins, and "(idle)" where it ends.
 *
 * The Firefox Profiler drops a sample less than half a millisecond after the one before, or after
 * the start. So there is no "(idle)" for a shorter time: the next sample begins where the last one
 * ended, up to NEAR_US early, and no sample is at the start. */
#include "tool/export/trace.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/export/timeline.h"
#include "tool/util/json.h"

#define CATEGORY "disabled-by-default-v8.cpu_profiler"
enum { ROOT = 1, IDLE = 2, FIRST = 2 /* node N of the tree is FIRST + N */ };
enum { CHUNK = 4096, NEAR_US = 1000 };

/* The profile of one thread. */
struct profile_writer {
    struct trace *w;
    const struct cpu_part *thread;
    uint32_t number;
    struct buf nodes, samples, deltas; /* of the current chunk */
    size_t count;                      /* its samples */
    int64_t chunk_us, last_us;         /* its begin; the time of the last sample */
};

/* ---- nodes ---- */

static void put_node(struct profile_writer *v, uint32_t id, uint32_t parent, const char *name,
                     const char *file)
{
    buf_printf(&v->nodes, "%s{\"id\":%u,", v->nodes.len ? ",\n" : "", id);
    if (parent)
        buf_printf(&v->nodes, "\"parent\":%u,", parent);
    buf_puts(&v->nodes, "\"callFrame\":{\"scriptId\":0,\"functionName\":");
    json_put_string(&v->nodes, name);
    buf_puts(&v->nodes, ",\"url\":");
    json_put_string(&v->nodes, file);
    buf_puts(&v->nodes, "}}");
}

/* Writes the nodes from NODE outwards that this profile does not have yet, callers first. */
static void put_nodes(struct profile_writer *v, uint32_t node)
{
    struct export_nodes *n = &v->w->nodes;
    uint32_t path[PROFILE_MAX_FRAMES];
    size_t depth = 0;
    for (; node && n->list[node - 1].sent != v->number; node = n->list[node - 1].parent) {
        n->list[node - 1].sent = v->number;
        path[depth++] = node;
    }
    while (depth-- > 0) {
        uint32_t parent = n->list[path[depth] - 1].parent;
        put_node(v, FIRST + path[depth], parent ? FIRST + parent : ROOT,
                 export_node_name(n, path[depth]), export_node_file(n, path[depth]));
    }
}

/* ---- chunks ---- */

static void put_profile(struct profile_writer *v)
{
    struct trace *w = v->w;
    trace_begin(w, "P", CATEGORY, v->thread->pid, v->thread->tid, w->start_ns);
    buf_printf(&w->b, ",\"id\":\"0x%x\",\"name\":\"Profile\",\"args\":{\"data\":{\"startTime\":0}}",
               v->number);
    trace_end(w);
    put_node(v, ROOT, 0, "(root)", "");
    put_node(v, IDLE, ROOT, "(idle)", "");
}

static void put_chunk(struct profile_writer *v)
{
    struct trace *w = v->w;
    struct buf *const parts[] = {&v->nodes, &v->samples, &v->deltas};
    static const char *const before[] = {"\"nodes\":[", "],\"samples\":[", "]},\"timeDeltas\":["};
    if (v->count == 0)
        return;
    trace_begin(w, "P", CATEGORY, v->thread->pid, v->thread->tid,
                w->start_ns + (uint64_t)v->chunk_us * 1000);
    buf_printf(&w->b,
               ",\"id\":\"0x%x\",\"name\":\"ProfileChunk\",\"args\":{\"data\":{\"cpuProfile\":{",
               v->number);
    for (size_t i = 0; i < 3; i++) {
        buf_puts(&w->b, before[i]);
        if (parts[i]->len)
            buf_put(&w->b, parts[i]->data, parts[i]->len);
        w->b.failed |= parts[i]->failed;
        buf_clear(parts[i]);
    }
    buf_puts(&w->b, "]}}");
    trace_end(w);
    v->count = 0;
}

static void put_sample(struct profile_writer *v, uint32_t node, int64_t at_us)
{
    const char *comma = v->count ? "," : "";
    if (v->count == 0)
        v->chunk_us = at_us;
    buf_printf(&v->samples, "%s%u", comma, node);
    buf_printf(&v->deltas, "%s%lld", comma, (long long)(at_us - v->last_us));
    v->last_us = at_us;
    if (++v->count == CHUNK)
        put_chunk(v);
}

/* Writes SPAN, which is LENGTH_US long, after the sample that ended at END_US. Returns its end. */
static int64_t put_span(struct profile_writer *v, const struct timeline_span *span,
                        int64_t length_us, int64_t end_us)
{
    struct trace *w = v->w;
    int64_t at_us = (int64_t)(trace_since(w, span->begin_ns) / 1000);
    uint32_t node = export_node_of(&w->nodes, span->stack);
    trace_keep_error(w, node ? 0 : -ENOMEM);
    if (node == 0)
        return end_us;
    if (at_us >= end_us + NEAR_US)
        put_sample(v, IDLE, end_us);
    else
        at_us = end_us;
    put_nodes(v, node);
    put_sample(v, FIRST + node, at_us);
    return at_us + length_us;
}

/* The lengths of the samples are rounded so that they add up. */
static void put_thread(struct trace *w, const struct cpu_part *thread)
{
    struct profile_writer v = {.w = w, .thread = thread, .number = ++w->profiles};
    struct export_rounding rounding = {0};
    struct timeline t;
    struct timeline_span span;
    int64_t end_us = NEAR_US;
    put_profile(&v);
    timeline_start(&t, w->rec, thread, TIMELINE_CPU);
    while (w->err == 0 && timeline_next(&t, &span)) {
        int64_t length_us = export_round(&rounding, (double)(span.end_ns - span.begin_ns) / 1e3);
        if (length_us > 0)
            end_us = put_span(&v, &span, length_us, end_us);
    }
    put_sample(&v, IDLE, end_us);
    put_chunk(&v);
    buf_free(&v.nodes);
    buf_free(&v.samples);
    buf_free(&v.deltas);
}

/* ---- off the CPU ---- */

/* A thread that did not come back was away until the end. */
static void put_off(struct trace *w, const struct recording_sample *s)
{
    bool preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
    uint64_t to = s->value ? s->at_ns + s->value : w->p->end_ns;
    uint32_t node = export_node_of(&w->nodes, s->stack);
    trace_keep_error(w, node ? 0 : -ENOMEM);
    if (node == 0)
        return;
    trace_begin(w, "X", preempted ? "preempted" : "blocked", (uint64_t)s->pid + TRACE_OFF_PIDS,
                s->tid, s->at_ns);
    buf_putc(&w->b, ',');
    /* The thread may have left its CPU before the recording began. */
    trace_put_time(w, "dur", to > s->at_ns ? trace_since(w, to) - trace_since(w, s->at_ns) : 0);
    trace_put_name(w, preempted ? "waiting for a CPU" : export_node_name(&w->nodes, node));
    buf_printf(&w->b, ",\"cname\":\"%s\",\"sf\":\"%u\"",
               preempted ? "thread_state_runnable" : "thread_state_sleeping", node);
    trace_end(w);
}

/* ---- names ---- */

static void put_process(struct trace *w, uint32_t pid, bool off)
{
    char own[PIANO_REC_PATH], name[PIANO_REC_PATH + 20];
    snprintf(name, sizeof(name), "%s%s", export_process_name(own, w->rec, pid),
             off ? ": off the CPU" : "");
    trace_put_metadata(w, "process_name", (uint64_t)pid + (off ? TRACE_OFF_PIDS : 0), pid, name);
}

static void put_thread_name(struct trace *w, const struct cpu_part *t, bool off)
{
    char name[200];
    trace_put_metadata(w, "thread_name", (uint64_t)t->pid + (off ? TRACE_OFF_PIDS : 0), t->tid,
                       cpu_thread_name(name, sizeof(name), w->rec, t->tid));
}

/* Names of what has samples; the program and threads with events are named already. */
static void put_names(struct trace *w)
{
    const struct cpu *c = w->s->cpu;
    struct map tracks = {.slots = NULL};
    for (uint32_t i = 0; i < w->rec->events.track_count; i++)
        if (map_find(&tracks, w->rec->events.tracks[i].tid) == MAP_NONE)
            trace_keep_error(w, map_put(&tracks, w->rec->events.tracks[i].tid, i));
    for (size_t i = 0; i < c->process_count; i++) {
        const struct cpu_part *p = &c->processes[i];
        if (p->pid != w->rec->header.pid && !recording_process_of(w->rec, p->pid))
            put_process(w, p->pid, false);
        if (p->off_ns || p->preempted_ns)
            put_process(w, p->pid, true);
    }
    for (size_t i = 0; i < c->thread_count; i++) {
        const struct cpu_part *t = &c->threads[i];
        if (t->pid != w->rec->header.pid || map_find(&tracks, t->tid) == MAP_NONE)
            put_thread_name(w, t, false);
        if (t->off_ns || t->preempted_ns)
            put_thread_name(w, t, true);
    }
    map_release(&tracks);
}

/* ---- all ---- */

void trace_put_samples(struct trace *w)
{
    const struct cpu *c = w->s->cpu;
    if (!c)
        return;
    for (size_t i = 0; i < w->rec->sample_count && w->err == 0; i++) {
        struct recording_sample part;
        if (w->rec->samples[i].kind != PIANO_SAMPLE_CPU &&
            recording_clip(w->rec, &w->rec->samples[i], &part))
            put_off(w, &part);
    }
    w->referred = w->nodes.count; /* the profiles have their own */
    for (size_t i = 0; i < c->thread_count && w->err == 0; i++)
        if (c->threads[i].cpu_ns)
            put_thread(w, &c->threads[i]);
    put_names(w);
}

void trace_put_stacks(struct trace *w)
{
    const struct export_nodes *n = &w->nodes;
    for (uint32_t i = 1; i <= w->referred && w->err == 0; i++) {
        buf_printf(&w->b, "%s\"%u\":{\"category\":\"cpu\",\"name\":", i > 1 ? ",\n" : "\n", i);
        json_put_string(&w->b, export_node_name(n, i));
        if (n->list[i - 1].parent)
            buf_printf(&w->b, ",\"parent\":\"%u\"", n->list[i - 1].parent);
        buf_putc(&w->b, '}');
        trace_keep_error(w, buf_flush(&w->b, w->out, false));
    }
}
