/* Speedscope's file format, as in its JSON schema (file-format-schema.json of the npm package): a
 * table of functions, and "sampled" profiles of stacks, root first, with weights in bytes or
 * nanoseconds. Inlined functions are ordinary frames.
 *
 * A thread has up to three profiles, in order of time: on the CPU, blocked, waiting for a CPU. A
 * stack without frames stands for the time between; Speedscope counts it as idle. So all threads
 * have the same axis of time, from the start of the recording. Memory, and the sums over all
 * threads, have no times. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/functions.h"
#include "tool/export/series.h"
#include "tool/export/timeline.h"
#include "tool/util/json.h"
#include "tool/util/say.h"

#define NO_STACK UINT32_MAX

struct writer {
    FILE *out;
    const struct export_source *s;
    struct series series;
    struct export_functions functions;
    const struct symbol_frame **frames;
    struct buf b;
    struct buf weights; /* of the current profile */
    int64_t sum;        /* of these */
    bool any;           /* the current profile has a sample */
    size_t profiles, active;
    bool has_active;
    int err;
};

static void keep_error(struct writer *w, int err)
{
    w->err = w->err ? w->err : err;
}

/* ---- one profile ---- */

static void begin(struct writer *w, const char *name, const char *unit)
{
    buf_puts(&w->b, w->profiles++ ? ",\n" : "");
    buf_puts(&w->b, "{\"type\":\"sampled\",\"name\":");
    json_put_string(&w->b, name);
    buf_printf(&w->b, ",\"unit\":\"%s\",\"samples\":[\n", unit);
    w->any = false;
    w->sum = 0;
}

/* COUNT frames of the writer's buffer, innermost first; 0: idle. */
static void put_sample(struct writer *w, size_t count, int64_t weight)
{
    buf_puts(&w->b, w->any ? ",\n[" : "[");
    while (count-- > 0 && w->err == 0) {
        int64_t number = export_function(&w->functions, w->frames[count]);
        keep_error(w, number < 0 ? (int)number : 0);
        buf_printf(&w->b, "%lld%s", (long long)number, count ? "," : "");
    }
    buf_putc(&w->b, ']');
    buf_printf(&w->weights, "%s%lld", w->any ? "," : "", (long long)weight);
    w->any = true;
    w->sum += weight;
    keep_error(w, buf_flush(&w->b, w->out, false));
}

static void end(struct writer *w)
{
    buf_puts(&w->b, "],\"weights\":[");
    if (w->weights.len)
        buf_put(&w->b, w->weights.data, w->weights.len);
    w->b.failed |= w->weights.failed;
    buf_clear(&w->weights);
    buf_printf(&w->b, "],\"startValue\":0,\"endValue\":%lld}", (long long)w->sum);
}

/* Makes the last profile the one to open, unless there is one. */
static void open_here(struct writer *w)
{
    if (!w->has_active)
        w->active = w->profiles - 1;
    w->has_active = true;
}

/* ---- sums ---- */

/* The rows from FROM to TO of the series TYPE. */
static void put_rows(struct writer *w, size_t type, size_t from, size_t to)
{
    const struct series *t = &w->series;
    struct export_rounding rounding = {0};
    for (size_t i = from; i < to && w->err == 0; i++) {
        double value = t->rows[i].values[type];
        if (value > 0)
            put_sample(w, series_frames(t, &t->rows[i], w->frames), export_round(&rounding, value));
    }
}

static bool find_type(const struct series *t, const char *name, size_t *type)
{
    for (*type = 0; *type < t->type_count; ++*type)
        if (strcmp(t->types[*type].name, name) == 0)
            return true;
    return false;
}

static void put_sums(struct writer *w, const char *series, const char *name)
{
    size_t type;
    if (!find_type(&w->series, series, &type))
        return;
    begin(w, name, w->series.types[type].unit);
    put_rows(w, type, 0, w->series.row_count);
    end(w);
}

static void put_heap(struct writer *w)
{
    static const char *const names[] = {"live bytes", "allocated bytes", "bytes live at the peak"};
    static const char *const series[] = {"inuse_space", "alloc_space", "peak_space"};
    enum figure first = w->s->figure < 3 ? w->s->figure : FIGURE_LIVE;
    put_sums(w, series[first], names[first]);
    if (w->s->figure < FIGURES_OF_HEAP)
        open_here(w);
    for (size_t i = 0; i < 3; i++)
        if (i != first)
            put_sums(w, series[i], names[i]);
}

/* ---- threads ---- */

static const char *const kinds[TIMELINE_KINDS] = {"CPU time", "blocked", "waiting for a CPU"};

static void put_spans(struct writer *w, struct timeline *t)
{
    uint64_t upto = t->last_ns, begun = upto;
    uint32_t stack = NO_STACK; /* from BEGUN to UPTO */
    struct timeline_span span;
    bool more = true;
    while (more && w->err == 0) {
        more = timeline_next(t, &span);
        if (more && span.begin_ns == upto && span.stack == stack) {
            upto = span.end_ns;
            continue;
        }
        if (upto > begun)
            put_sample(w, profile_frames(w->s->profile, stack, w->frames), (int64_t)(upto - begun));
        if (more && span.begin_ns > upto)
            put_sample(w, 0, (int64_t)(span.begin_ns - upto));
        if (more) {
            begun = span.begin_ns;
            upto = span.end_ns;
            stack = span.stack;
        }
    }
}

static void put_thread(struct writer *w, const struct cpu_part *thread, bool is_main)
{
    const struct recording *rec = &w->s->profile->rec;
    const uint64_t lengths[] = {thread->cpu_ns, thread->off_ns, thread->preempted_ns};
    size_t shown = w->s->figure == FIGURE_OFF_CPU ? TIMELINE_BLOCKED : TIMELINE_CPU;
    char name[400], own[100], process[100];
    for (size_t kind = 0; kind < TIMELINE_KINDS && w->err == 0; kind++) {
        struct timeline t;
        if (lengths[kind] == 0)
            continue;
        cpu_thread_name(own, sizeof(own), rec, thread->tid);
        cpu_thread_name(process, sizeof(process), rec, thread->pid);
        bool several = w->s->cpu->process_count > 1 && !export_is_main(thread);
        snprintf(name, sizeof(name), "%s%s%s: %s", several ? process : "", several ? ", " : "", own,
                 kinds[kind]);
        begin(w, name, "nanoseconds");
        timeline_start(&t, rec, thread, (enum timeline_kind)kind);
        put_spans(w, &t);
        end(w);
        if (is_main && kind == shown && w->s->figure >= FIGURES_OF_HEAP)
            open_here(w);
    }
}

/* The main thread comes first, then those with the most CPU time. */
static void put_threads(struct writer *w)
{
    const struct cpu *c = w->s->cpu;
    uint32_t pid = w->s->profile->rec.header.pid;
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < c->thread_count && w->err == 0; i++) {
            bool is_main = c->threads[i].pid == pid && export_is_main(&c->threads[i]);
            if (is_main != others)
                put_thread(w, &c->threads[i], is_main);
        }
    if (c->thread_count == 1)
        return;
    put_sums(w, "cpu", "all threads: CPU time");
    put_sums(w, "off_cpu", "all threads: blocked");
    put_sums(w, "preempted", "all threads: waiting for a CPU");
}

/* ---- runs ---- */

static bool is_same_thread(const struct series_row *a, const struct series_row *b)
{
    return a->tid == b->tid && a->thread == b->thread;
}

/* A profile for each thread, whose rows follow one another, and one for the functions whose threads
 * are not known. */
static void put_run(struct writer *w)
{
    const struct series *t = &w->series;
    const char *what = t->chosen == SERIES_RUN_SELF ? "self time" : "allocated bytes";
    char name[200], safe[100];
    for (size_t from = 0, to; from < t->row_count && w->err == 0; from = to) {
        const struct series_row *row = &t->rows[from];
        for (to = from + 1; to < t->row_count && is_same_thread(row, &t->rows[to]);)
            to++;
        snprintf(name, sizeof(name), "%s: %s",
                 row->thread ? say_safe(safe, sizeof(safe), row->thread) : "all threads", what);
        begin(w, name, t->types[t->chosen].unit);
        put_rows(w, t->chosen, from, to);
        end(w);
    }
    if (w->profiles == 0)
        put_sums(w, t->types[t->chosen].name, what);
}

/* ---- all ---- */

static void put_functions(struct writer *w)
{
    const struct export_functions *f = &w->functions;
    buf_printf(&w->b, "],\"activeProfileIndex\":%zu,\n\"shared\":{\"frames\":[", w->active);
    for (size_t i = 0; i < f->count; i++) {
        buf_puts(&w->b, i ? ",\n{\"name\":" : "\n{\"name\":");
        json_put_string(&w->b, f->list[i]->function);
        if (f->list[i]->file) {
            buf_puts(&w->b, ",\"file\":");
            json_put_string(&w->b, f->list[i]->file);
        }
        if (!w->s->profile && f->list[i]->line) /* a run knows the line of the function */
            buf_printf(&w->b, ",\"line\":%u", f->list[i]->line);
        buf_putc(&w->b, '}');
        keep_error(w, buf_flush(&w->b, w->out, false));
    }
    buf_puts(&w->b, "]}}\n");
}

static void put_all(struct writer *w)
{
    const struct export_source *s = w->s;
    char name[PIANO_REC_PATH];
    bool heap_first = s->figure < FIGURES_OF_HEAP;
    buf_puts(&w->b,
             "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":");
    json_put_string(&w->b, export_program(name, s));
    buf_puts(&w->b, ",\"exporter\":\"piano\",\"profiles\":[");
    if (!s->profile)
        put_run(w);
    if (s->heap && heap_first)
        put_heap(w);
    if (s->cpu)
        put_threads(w);
    if (s->heap && !heap_first)
        put_heap(w);
    put_functions(w);
}

int export_speedscope(FILE *out, const struct export_source *s)
{
    struct writer w = {.out = out, .s = s};
    w.frames = calloc(PROFILE_MAX_FRAMES, sizeof(*w.frames));
    keep_error(&w, w.frames ? series_make(&w.series, s, true) : -ENOMEM);
    if (w.err == 0)
        put_all(&w);
    if (w.err == 0)
        w.err = buf_flush(&w.b, out, true);
    series_release(&w.series);
    export_functions_release(&w.functions);
    buf_free(&w.b);
    buf_free(&w.weights);
    free(w.frames);
    return w.err;
}
