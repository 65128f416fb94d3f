/* pprof: an uncompressed profile.proto (every reader accepts it). The values of samples are final,
 * unbiased estimates: a reader must not scale them again, and the period is only informative.
 *
 * A location is an address; inlined functions are the lines of one location, innermost first. All
 * names are included, so that pprof need not read the program. Field numbers are those of
 * profile.proto. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/proto.h"
#include "tool/util/map.h"
#include "tool/util/vec.h"

enum { /* fields of Profile */
       P_SAMPLE_TYPE = 1,
       P_SAMPLE = 2,
       P_MAPPING = 3,
       P_LOCATION = 4,
       P_FUNCTION = 5,
       P_STRINGS = 6,
       P_TIME_NANOS = 9,
       P_DURATION_NANOS = 10,
       P_PERIOD_TYPE = 11,
       P_PERIOD = 12,
       P_COMMENT = 13,
       P_DEFAULT_SAMPLE_TYPE = 14,
};
enum { MAX_VALUES = 6 };

/* Strings or functions, numbered from 1 in the order of first use (string 0 is the empty
 * string). */
struct names {
    struct name {
        const char *text, *file;
    } * list;
    size_t count, cap;
    struct map index; /* by a hash of both */
};

struct writer {
    const struct profile *profile;
    FILE *out;
    struct buf b;               /* the profile so far */
    struct buf message, inside; /* the current message, and one nested in it */
    struct buf strings;         /* the encoded string table */
    struct buf function_table;  /* the encoded function table */
    struct names texts, functions;
    char (*build_ids)[65]; /* build-ids of the modules, as text */
    uint32_t *processes;   /* by stack; NULL: the recording has one process */
    enum figure by;
    bool failed;
};

/* ---- tables ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The number of TEXT (in FILE). Sets *NEW if it was added. TEXT is not copied and must stay
 * valid. */
static uint32_t number_of(struct writer *w, struct names *n, const char *text, const char *file,
                          bool *new)
{
    const uint64_t hashes[] = {map_hash(text, strlen(text)),
                               file ? map_hash(file, strlen(file)) : 0};
    uint64_t key = map_hash(hashes, sizeof(hashes));
    uint32_t at;
    *new = false;
    for (; (at = map_find(&n->index, key)) != MAP_NONE; key++)
        if (same_text(n->list[at].text, text) && same_text(n->list[at].file, file))
            return at + 1;
    at = (uint32_t)n->count;
    if (VEC_ROOM(n->list, n->count, n->cap) != 0 || map_put(&n->index, key, at) != 0) {
        w->failed = true;
        return 0;
    }
    n->list[n->count++] = (struct name){text, file};
    *new = true;
    return at + 1;
}

/* Strings of a profile are UTF-8 and are printed on terminals, so they are made safe. */
static uint32_t string(struct writer *w, const char *text)
{
    bool new;
    if (!text || !*text)
        return 0;
    uint32_t number = number_of(w, &w->texts, text, NULL, &new);
    char *safe = new ? profile_safe_name(text, false) : NULL;
    w->failed |= new && !safe;
    if (safe)
        proto_bytes(&w->strings, P_STRINGS, safe, strlen(safe));
    free(safe);
    return number;
}

static uint32_t function(struct writer *w, const struct symbol_frame *f)
{
    bool new;
    uint32_t number = number_of(w, &w->functions, f->function, f->file, &new);
    if (new) {
        struct buf m = {0};
        uint32_t name = string(w, f->function);
        proto_number(&m, 1, number);
        proto_number(&m, 2, name);
        proto_number(&m, 3, name); /* system_name: the mangled name is not available */
        proto_number(&m, 4, string(w, f->file));
        proto_message(&w->function_table, P_FUNCTION, &m);
        buf_free(&m);
    }
    return number;
}

/* ---- messages ---- */

static void put_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
    proto_number(&w->message, 1, string(w, type));
    proto_number(&w->message, 2, string(w, unit));
    proto_message(&w->b, field, &w->message);
}

static int put_location(struct writer *w, size_t i)
{
    const struct profile_pc *pc = &w->profile->pcs[i];
    proto_number(&w->message, 1, i + 1);
    if (pc->module)
        proto_number(&w->message, 2, (uint64_t)(pc->module - w->profile->rec.modules) + 1);
    proto_number(&w->message, 3, pc->pc);
    for (uint32_t k = 0; k < pc->count; k++) {
        proto_number(&w->inside, 1, function(w, &pc->frames[k]));
        proto_number(&w->inside, 2, pc->frames[k].line);
        proto_message(&w->message, 4, &w->inside);
    }
    proto_message(&w->b, P_LOCATION, &w->message);
    return buf_flush(&w->b, w->out, false);
}

static int put_mappings(struct writer *w)
{
    const struct recording *rec = &w->profile->rec;
    for (size_t i = 0; i < rec->module_count; i++) {
        const struct recording_module *m = &rec->modules[i];
        for (size_t k = 0; k < m->build_id_len; k++)
            snprintf(w->build_ids[i] + 2 * k, 3, "%02x", m->build_id[k]);
        proto_number(&w->message, 1, i + 1);
        proto_number(&w->message, 2, m->start);
        proto_number(&w->message, 3, m->end);
        proto_number(&w->message, 4, m->start - m->bias);
        proto_number(&w->message, 5, string(w, m->path));
        proto_number(&w->message, 6, string(w, w->build_ids[i]));
        for (unsigned has = 7; has <= 10; has++) /* functions, files, lines, inlined frames */
            proto_number(&w->message, has, 1);
        proto_message(&w->b, P_MAPPING, &w->message);
    }
    return buf_flush(&w->b, w->out, false);
}

/* Labels of a sample: its process. */
static void put_process(struct writer *w, uint32_t pid)
{
    const struct recording_process *p = recording_process_of(&w->profile->rec, pid);
    if (pid == 0)
        return;
    proto_number(&w->inside, 1, string(w, "pid"));
    proto_number(&w->inside, 3, pid);
    proto_message(&w->message, 3, &w->inside);
    if (!p || !*p->name)
        return;
    proto_number(&w->inside, 1, string(w, "process"));
    proto_number(&w->inside, 2, string(w, p->name));
    proto_message(&w->message, 3, &w->inside);
}

static int put_sample(struct writer *w, uint32_t stack, const double *values, size_t count,
                      struct export_rounding *rounding)
{
    const struct profile_stack *s = &w->profile->stacks[stack];
    for (uint32_t i = 0; i < s->depth; i++)
        proto_varint(&w->inside, s->pcs[i] + 1);
    if (s->depth == 0)
        proto_varint(&w->inside, w->profile->pc_count + 1); /* "(no stack)" */
    proto_message(&w->message, 1, &w->inside);
    for (size_t i = 0; i < count; i++)
        proto_varint(&w->inside, (uint64_t)export_round(&rounding[i], values[i]));
    proto_message(&w->message, 2, &w->inside);
    if (w->processes)
        put_process(w, w->processes[stack]);
    proto_message(&w->b, P_SAMPLE, &w->message);
    return buf_flush(&w->b, w->out, false);
}

static int put_samples(struct writer *w, size_t count)
{
    const struct recording *rec = &w->profile->rec;
    struct export_rounding rounding[MAX_VALUES] = {{0}};
    int err = 0;
    for (uint32_t i = 0; i < rec->stack_count && err == 0; i++) {
        const struct recording_sum *s = &rec->stacks[i].sum;
        const double heap[MAX_VALUES] = {s->allocated_objects, s->allocated_bytes, s->live_objects,
                                         s->live_bytes,        s->peak_objects,    s->peak_bytes};
        const double cpu[MAX_VALUES] = {(double)s->cpu_samples, (double)s->cpu_ns,
                                        (double)s->off_samples, (double)s->off_ns};
        if (w->profile->stacks[i].pcs)
            err = put_sample(w, i, w->by < FIGURES_OF_HEAP ? heap : cpu, count, rounding);
    }
    return err;
}

static int put_locations(struct writer *w)
{
    static const struct symbol_frame none = {.function = "(no stack)"};
    int err = 0;
    for (size_t i = 0; i < w->profile->pc_count && err == 0; i++)
        err = put_location(w, i);
    proto_number(&w->message, 1, w->profile->pc_count + 1);
    proto_number(&w->inside, 1, function(w, &none));
    proto_message(&w->message, 4, &w->inside);
    proto_message(&w->b, P_LOCATION, &w->message);
    return err;
}

/* Writes the types of the values, in their order. The peak is included only if it was asked for. */
static size_t put_types(struct writer *w)
{
    static const char *const heap[MAX_VALUES][2] = {
        {"alloc_objects", "count"}, {"alloc_space", "bytes"},  {"inuse_objects", "count"},
        {"inuse_space", "bytes"},   {"peak_objects", "count"}, {"peak_space", "bytes"}};
    static const char *const cpu[][2] = {{"samples", "count"},
                                         {"cpu", "nanoseconds"},
                                         {"switches", "count"},
                                         {"off_cpu", "nanoseconds"}};
    static const char *const chosen[FIGURES] = {"inuse_space", "alloc_space", "peak_space",
                                                "alloc_space", "cpu",         "off_cpu"};
    bool time = w->by >= FIGURES_OF_HEAP;
    size_t count = w->by == FIGURE_PEAK ? MAX_VALUES : MAX_VALUES - 2;
    for (size_t i = 0; i < count; i++)
        put_type(w, P_SAMPLE_TYPE, time ? cpu[i][0] : heap[i][0], time ? cpu[i][1] : heap[i][1]);
    put_type(w, P_PERIOD_TYPE, time ? "cpu" : "space", time ? "nanoseconds" : "bytes");
    proto_number(&w->b, P_DEFAULT_SAMPLE_TYPE, string(w, chosen[w->by]));
    return count;
}

static int put_all(struct writer *w)
{
    const struct recording *rec = &w->profile->rec;
    proto_bytes(&w->strings, P_STRINGS, "", 0);
    size_t count = put_types(w);
    uint64_t hz = rec->header.trace.cpu_hz;
    proto_number(&w->b, P_PERIOD,
                 w->by < FIGURES_OF_HEAP ? rec->header.rate
                 : hz                    ? 1000000000 / hz
                                         : 0);
    proto_number(&w->b, P_TIME_NANOS, rec->header.start_real_ns);
    if (rec->duration_ns > 0)
        proto_number(&w->b, P_DURATION_NANOS, (uint64_t)rec->duration_ns);
    proto_number(&w->b, P_COMMENT, string(w, "piano: estimates, final; not to be scaled"));
    int err = put_mappings(w);
    if (err == 0)
        err = put_samples(w, count);
    if (err == 0)
        err = put_locations(w);
    proto_merge(&w->b, &w->function_table);
    proto_merge(&w->b, &w->strings);
    if (w->failed)
        err = -ENOMEM;
    return err ? err : buf_flush(&w->b, w->out, true);
}

int export_pprof(FILE *out, const struct profile *p, enum figure by)
{
    struct writer w = {.profile = p, .out = out, .by = by};
    w.build_ids = calloc(p->rec.module_count + 1, sizeof(*w.build_ids));
    bool is_tree = p->rec.process_count > 1;
    w.processes = is_tree ? recording_stack_processes(&p->rec) : NULL;
    int err = w.build_ids && (w.processes || !is_tree) ? put_all(&w) : -ENOMEM;
    struct buf *const bufs[] = {&w.b, &w.message, &w.inside, &w.strings, &w.function_table};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
        buf_free(bufs[i]);
    struct names *const tables[] = {&w.texts, &w.functions};
    for (size_t i = 0; i < 2; i++) {
        free(tables[i]->list);
        map_release(&tables[i]->index);
    }
    free(w.build_ids);
    free(w.processes);
    return err;
}
