/* The processed format of the Firefox Profiler, version 48; newer ones read it.
 *
 * Compared with --format chrome it has the weight of each sample in milliseconds, so that totals are
 * times and not numbers of samples; source lines; markers with stacks; and a track for memory.
 *
 * Each thread has its own tables of strings, functions, frames and stacks, column by column. A
 * stack is a frame below another stack; each has a frame of its own. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/firefox.h"
#include "tool/export/nodes.h"
#include "tool/export/timeline.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum { PHASE_INSTANT, PHASE_INTERVAL };
enum { NO_STACK = 0 };

struct thread {
    uint32_t pid, tid;
    const struct cpu_part *part; /* NULL: it has no CPU samples and waits */
};

/* A sample, or the end of one: without a stack. */
struct sample {
    uint64_t at_ns, value_ns;
    uint32_t stack; /* 1 + its number in the thread; NO_STACK */
};

struct writer {
    struct json_writer j;
    const struct export_source *s;
    const struct recording *rec;
    struct markers markers;
    struct export_nodes nodes;
    struct thread *threads;
    size_t thread_count, thread_cap;
    /* Of the current thread. */
    uint32_t *stacks; /* nodes, in order of first use, callers first */
    size_t stack_count, stack_cap;
    uint32_t *functions; /* numbers in `nodes` */
    size_t function_count, function_cap;
    uint32_t *function_at; /* 1 + index in `functions`, by number */
    struct sample *samples;
    size_t sample_count, sample_cap;
};

static double ms(const struct writer *w, uint64_t at_ns)
{
    uint64_t start = w->markers.start_ns;
    return at_ns > start ? (double)(at_ns - start) / 1e6 : 0;
}

/* ---- collecting a thread ---- */

/* 1 + the number of STACK in the thread. */
static uint32_t stack_of(struct writer *w, uint32_t stack)
{
    uint32_t path[PROFILE_MAX_FRAMES];
    uint32_t node = export_node_of(&w->nodes, stack), first = node;
    size_t depth = 0;
    if (node == 0)
        json_keep_error(&w->j, -ENOMEM);
    for (; node && w->nodes.list[node - 1].sent == 0; node = w->nodes.list[node - 1].parent)
        path[depth++] = node;
    while (depth-- > 0 && w->j.err == 0) {
        if (VEC_ROOM(w->stacks, w->stack_count, w->stack_cap) != 0) {
            json_keep_error(&w->j, -ENOMEM);
            break;
        }
        w->stacks[w->stack_count++] = path[depth];
        w->nodes.list[path[depth] - 1].sent = (uint32_t)w->stack_count;
    }
    return first ? w->nodes.list[first - 1].sent : NO_STACK;
}

static void add_sample(struct writer *w, uint64_t at_ns, uint64_t value_ns, uint32_t stack)
{
    if (VEC_ROOM(w->samples, w->sample_count, w->sample_cap) != 0)
        json_keep_error(&w->j, -ENOMEM);
    else
        w->samples[w->sample_count++] = (struct sample){at_ns, value_ns, stack};
}

static void collect_samples(struct writer *w, const struct cpu_part *part)
{
    struct timeline t;
    struct timeline_span span;
    timeline_start(&t, w->rec, part, TIMELINE_CPU);
    uint64_t upto = t.last_ns;
    while (timeline_next(&t, &span) && w->j.err == 0) {
        if (span.begin_ns > upto)
            add_sample(w, upto, 0, NO_STACK);
        add_sample(w, span.begin_ns, span.end_ns - span.begin_ns, stack_of(w, span.stack));
        upto = span.end_ns;
    }
    add_sample(w, upto, 0, NO_STACK);
}

/* The Firefox Profiler shows the time up to the last sample. */
static void add_end(struct writer *w)
{
    uint64_t end = w->rec->range.given ? w->rec->range.to_ns : w->s->polls->end_ns;
    if (w->sample_count == 0 || w->samples[w->sample_count - 1].at_ns < end)
        add_sample(w, end, 0, NO_STACK);
}

static void collect_functions(struct writer *w)
{
    const struct export_nodes *n = &w->nodes;
    w->function_at = calloc(n->functions.count + 1, sizeof(*w->function_at));
    if (!w->function_at)
        json_keep_error(&w->j, -ENOMEM);
    for (size_t i = 0; i < w->stack_count && w->j.err == 0; i++) {
        uint32_t function = n->list[w->stacks[i] - 1].function;
        if (w->function_at[function])
            continue;
        if (VEC_ROOM(w->functions, w->function_count, w->function_cap) != 0) {
            json_keep_error(&w->j, -ENOMEM);
            break;
        }
        w->functions[w->function_count++] = function;
        w->function_at[function] = (uint32_t)w->function_count;
    }
}

static void collect(struct writer *w, const struct thread *t, size_t from, size_t to)
{
    w->stack_count = w->function_count = w->sample_count = 0;
    if (t->part)
        collect_samples(w, t->part);
    add_end(w);
    for (size_t i = from; i < to && w->j.err == 0; i++)
        if (w->markers.list[i].stack)
            (void)stack_of(w, w->markers.list[i].stack);
    collect_functions(w);
}

static void forget(struct writer *w)
{
    for (size_t i = 0; i < w->stack_count; i++)
        w->nodes.list[w->stacks[i] - 1].sent = 0;
    free(w->function_at);
    w->function_at = NULL;
}

/* ---- tables ---- */

/* A column of COUNT values that are all the same. */
static void put_same(struct json_writer *j, const char *key, size_t count, const char *value)
{
    json_add_array(j, key);
    for (size_t i = 0; i < count; i++)
        if (value)
            json_add_number(j, NULL, strtol(value, NULL, 10));
        else
            json_add_null(j, NULL);
    json_close(j);
}

static void put_falses(struct json_writer *j, const char *key, size_t count)
{
    json_add_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_add_flag(j, NULL, false);
    json_close(j);
}

static const struct symbol_frame *function_of(const struct writer *w, size_t i)
{
    return w->nodes.functions.list[w->functions[i]];
}

static unsigned category_of(const struct symbol_frame *f)
{
    return f->python ? FIREFOX_PYTHON : FIREFOX_NATIVE;
}

static void begin_table(struct json_writer *j, const char *key, size_t length)
{
    json_add_object(j, key);
    json_add_count(j, "length", length);
}

/* Strings: name and file of each function, its module, then the names of markers. */
enum { TEXTS = 3 };

static void put_functions(struct writer *w)
{
    struct json_writer *j = &w->j;
    size_t count = w->function_count;
    begin_table(j, "funcTable", count);
    json_add_array(j, "name");
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, TEXTS * i);
    json_close(j);
    json_add_array(j, "fileName");
    for (size_t i = 0; i < count; i++)
        json_add_known_count(j, NULL, function_of(w, i)->file != NULL, TEXTS * i + 1);
    json_close(j);
    json_add_array(j, "resource"); /* a module each; equal ones have equal names */
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, i);
    json_close(j);
    put_falses(j, "isJS", count);
    put_falses(j, "relevantForJS", count);
    put_same(j, "lineNumber", count, NULL);
    put_same(j, "columnNumber", count, NULL);
    json_close(j);
    begin_table(j, "resourceTable", count);
    json_add_array(j, "name");
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, TEXTS * i + 2);
    json_close(j);
    put_same(j, "lib", count, NULL);
    put_same(j, "host", count, NULL);
    put_same(j, "type", count, "0"); /* unknown */
    json_close(j);
}

static void put_frames(struct writer *w)
{
    struct json_writer *j = &w->j;
    const struct export_nodes *n = &w->nodes;
    size_t count = w->stack_count;
    begin_table(j, "frameTable", count);
    json_add_array(j, "func");
    for (size_t i = 0; i < count && w->function_at; i++)
        json_add_count(j, NULL, w->function_at[n->list[w->stacks[i] - 1].function] - 1);
    json_close(j);
    json_add_array(j, "line");
    for (size_t i = 0; i < count; i++) {
        uint32_t line = n->list[w->stacks[i] - 1].line;
        json_add_known_count(j, NULL, line != 0, line);
    }
    json_close(j);
    json_add_array(j, "category");
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, category_of(n->functions.list[n->list[w->stacks[i] - 1].function]));
    json_close(j);
    put_same(j, "subcategory", count, "0");
    put_same(j, "address", count, "-1");
    put_same(j, "inlineDepth", count, "0");
    put_same(j, "innerWindowID", count, "0");
    put_same(j, "nativeSymbol", count, NULL);
    put_same(j, "implementation", count, NULL);
    put_same(j, "column", count, NULL);
    json_close(j);
}

static void put_stacks(struct writer *w)
{
    struct json_writer *j = &w->j;
    const struct export_nodes *n = &w->nodes;
    size_t count = w->stack_count;
    begin_table(j, "stackTable", count);
    json_add_array(j, "frame");
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, i);
    json_close(j);
    json_add_array(j, "prefix");
    for (size_t i = 0; i < count; i++) {
        uint32_t parent = n->list[w->stacks[i] - 1].parent;
        json_add_known_count(j, NULL, parent != 0, parent ? n->list[parent - 1].sent - 1 : 0);
    }
    json_close(j);
    json_add_array(j, "category");
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, category_of(n->functions.list[n->list[w->stacks[i] - 1].function]));
    json_close(j);
    put_same(j, "subcategory", count, "0");
    json_close(j);
}

static void put_samples(struct writer *w)
{
    struct json_writer *j = &w->j;
    size_t count = w->sample_count;
    begin_table(j, "samples", count);
    json_add_text(j, "weightType", "tracing-ms");
    json_add_array(j, "stack");
    for (size_t i = 0; i < count; i++)
        json_add_known_count(j, NULL, w->samples[i].stack != NO_STACK,
                             (uint64_t)w->samples[i].stack - 1);
    json_close(j);
    json_add_array(j, "time");
    for (size_t i = 0; i < count; i++)
        json_add_real(j, NULL, 6, ms(w, w->samples[i].at_ns));
    json_close(j);
    json_add_array(j, "threadCPUDelta"); /* since the sample before */
    for (size_t i = 0; i < count; i++)
        json_add_count(j, NULL, i > 0 ? w->samples[i - 1].value_ns : 0);
    json_close(j);
    json_add_array(j, "weight");
    for (size_t i = 0; i < count; i++)
        json_add_real(j, NULL, 6, (double)w->samples[i].value_ns / 1e6);
    json_close(j);
    json_close(j);
}

/* ---- markers ---- */

const char *const firefox_marker_types[MARKER_KINDS] = {"Poll",    "Park",      "Mark",
                                                        "Blocked", "Preempted", "Frame"};

static void put_marker(struct writer *w, const struct marker *m)
{
    struct json_writer *j = &w->j;
    json_add_object(j, NULL);
    json_add_text(j, "type", firefox_marker_types[m->kind]);
    char number[24];
    snprintf(number, sizeof(number), "%llu", (unsigned long long)m->number);
    if (m->kind == MARKER_POLL)
        json_add_text(j, "task", number); /* it may be greater than a number of JavaScript */
    if (m->kind == MARKER_FRAME) {
        json_add_text(j, "frame", number);
        json_add_text(j, "spike", m->spike ? "yes" : "no");
    }
    if (m->stack) {
        json_add_object(j, "cause");
        json_add_real(j, "time", 6, ms(w, m->begin_ns));
        json_add_count(j, "stack", stack_of(w, m->stack) - 1);
        json_close(j);
    }
    json_close(j);
}

static void put_markers(struct writer *w, size_t from, size_t to)
{
    struct json_writer *j = &w->j;
    const struct marker *list = w->markers.list;
    begin_table(j, "markers", to - from);
    put_same(j, "category", to - from, "0");
    json_add_array(j, "name");
    for (size_t i = from; i < to; i++)
        json_add_count(j, NULL, TEXTS * w->function_count + (i - from));
    json_close(j);
    json_add_array(j, "startTime");
    for (size_t i = from; i < to; i++)
        json_add_real(j, NULL, 6, ms(w, list[i].begin_ns));
    json_close(j);
    json_add_array(j, "endTime");
    for (size_t i = from; i < to; i++)
        if (list[i].kind == MARKER_MARK)
            json_add_null(j, NULL);
        else
            json_add_real(j, NULL, 6, ms(w, list[i].end_ns));
    json_close(j);
    json_add_array(j, "phase");
    for (size_t i = from; i < to; i++)
        json_add_count(j, NULL, list[i].kind == MARKER_MARK ? PHASE_INSTANT : PHASE_INTERVAL);
    json_close(j);
    json_add_array(j, "data");
    for (size_t i = from; i < to; i++)
        put_marker(w, &list[i]);
    json_close(j);
    json_close(j);
}

/* ---- threads ---- */

static void put_strings(struct writer *w, size_t from, size_t to)
{
    struct json_writer *j = &w->j;
    json_add_array(j, "stringArray");
    for (size_t i = 0; i < w->function_count; i++) {
        const struct symbol_frame *f = function_of(w, i);
        json_add_text(j, NULL, f->function);
        json_add_text(j, NULL, f->file ? f->file : "");
        json_add_text(j, NULL, f->module);
    }
    for (size_t i = from; i < to; i++)
        json_add_text(j, NULL, w->markers.list[i].name);
    json_close(j);
}

static void put_thread_head(struct writer *w, const struct thread *t)
{
    struct json_writer *j = &w->j;
    const struct recording_thread *known = recording_thread_of(w->rec, t->tid);
    char process[PIANO_REC_PATH], pid[24];
    snprintf(pid, sizeof(pid), "%u", t->pid);
    json_add_text(j, "name", known && known->name[0] ? known->name : "thread");
    json_add_flag(j, "isMainThread", t->tid == t->pid);
    json_add_text(j, "processName", export_process_name(process, w->rec, t->pid));
    json_add_text(j, "processType", "default");
    json_add_real(j, "processStartupTime", 6, 0);
    json_add_null(j, "processShutdownTime");
    json_add_real(j, "registerTime", 6, 0);
    json_add_null(j, "unregisterTime");
    json_add_text(j, "pid", pid);
    json_add_count(j, "tid", t->tid);
    json_add_array(j, "pausedRanges");
    json_close(j);
}

static void put_thread(struct writer *w, const struct thread *t)
{
    struct json_writer *j = &w->j;
    size_t to, from = markers_of(&w->markers, t->pid, t->tid, &to);
    collect(w, t, from, to);
    json_add_row(j);
    put_thread_head(w, t);
    put_strings(w, from, to);
    put_functions(w);
    put_frames(w);
    put_stacks(w);
    put_samples(w);
    put_markers(w, from, to);
    begin_table(j, "nativeSymbols", 0);
    static const char *const columns[] = {"libIndex", "address", "name", "functionSize"};
    for (size_t i = 0; i < 4; i++)
        put_same(j, columns[i], 0, NULL);
    json_close(j);
    json_close(j);
    forget(w);
}

static void add_thread(struct writer *w, uint32_t pid, uint32_t tid, const struct cpu_part *part)
{
    if (VEC_ROOM(w->threads, w->thread_count, w->thread_cap) != 0)
        json_keep_error(&w->j, -ENOMEM);
    else
        w->threads[w->thread_count++] = (struct thread){pid, tid, part};
}

/* Threads with CPU samples or waits, most CPU time first, then those that only have markers. The
 * main thread of the program comes first: the Firefox Profiler shows it. */
static void find_threads(struct writer *w)
{
    const struct cpu *c = w->s->cpu;
    uint32_t pid = w->rec->header.pid;
    struct map known = {.slots = NULL};
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; c && i < c->thread_count; i++)
            if ((c->threads[i].pid == pid && export_is_main(&c->threads[i])) != others) {
                const struct cpu_part *t = &c->threads[i];
                add_thread(w, t->pid, t->tid, t);
                json_keep_error(&w->j, map_put(&known, (uint64_t)t->pid << 32 | t->tid, 0));
            }
    for (size_t i = 0; i < w->markers.count && w->j.err == 0; i++) {
        const struct marker *m = &w->markers.list[i];
        uint64_t key = (uint64_t)m->pid << 32 | m->tid;
        if (map_find(&known, key) != MAP_NONE)
            continue;
        add_thread(w, m->pid, m->tid, NULL);
        json_keep_error(&w->j, map_put(&known, key, 0));
    }
    map_release(&known);
}

/* ---- all ---- */

static void put_all(struct writer *w)
{
    struct json_writer *j = &w->j;
    json_add_object(j, NULL);
    firefox_put_meta(j, w->s);
    json_add_array(j, "libs");
    json_close(j);
    json_add_array(j, "pages");
    json_close(j);
    firefox_put_counters(j, w->s, w->markers.start_ns);
    json_add_array(j, "threads");
    for (size_t i = 0; i < w->thread_count && j->err == 0; i++)
        put_thread(w, &w->threads[i]);
    json_close(j);
    json_close(j);
}

int export_firefox(FILE *out, const struct export_source *s)
{
    struct writer w = {.j = {.out = out}, .s = s, .rec = &s->profile->rec};
    json_keep_error(&w.j, export_nodes_start(&w.nodes, s->profile, true));
    if (w.j.err == 0)
        json_keep_error(&w.j, markers_make(&w.markers, s));
    uint64_t all = w.markers.left_out + w.markers.count;
    if (w.markers.left_out)
        say("%llu of %llu polls, parks, waits and frames are left out",
            (unsigned long long)w.markers.left_out, (unsigned long long)all);
    if (w.j.err == 0)
        find_threads(&w);
    if (w.j.err == 0)
        put_all(&w);
    say_progress_done();
    markers_release(&w.markers);
    export_nodes_release(&w.nodes);
    free(w.threads);
    free(w.stacks);
    free(w.functions);
    free(w.samples);
    return json_finish(&w.j);
}
