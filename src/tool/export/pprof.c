/* pprof: an uncompressed profile.proto (every reader accepts it), of the table in series.h. The
 * values of samples are final, unbiased estimates: a reader must not scale them again, and the
 * period is only informative.
 *
 * A location is an address; inlined functions are the lines of one location, innermost first. All
 * names are included, so that pprof need not read the program. Field numbers are those of
 * profile.proto. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/proto.h"
#include "tool/export/series.h"
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

/* Strings or functions, numbered from 1 in the order of first use (string 0 is the empty
 * string). */
struct names {
    struct name {
        const char *text, *file;
    } * list;
    size_t count, cap;
    struct map index; /* by a hash of both */
};

/* A module, mapped at BIAS: all its segments together, since every generation of the module map
 * lists them again. */
struct mapping {
    const struct recording_module *module; /* the first of them */
    uint64_t start, end;
    char build_id[65];
};

struct writer {
    const struct series *series;
    const struct profile *profile; /* NULL: a run */
    FILE *out;
    struct buf b;               /* the profile so far */
    struct buf message, inside; /* the current message, and one nested in it */
    struct buf strings;         /* the encoded string table */
    struct buf function_table;  /* the encoded function table */
    struct names texts, functions;
    struct mapping *mappings;
    size_t mapping_count;
    uint32_t *mapping_of; /* 1 + index, by module of the recording */
    char process[PIANO_REC_PATH];
    bool lacks_stacks; /* a sample has no stack */
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
        if (!w->profile)
            proto_number(&m, 5, f->line); /* a run knows where a function begins */
        proto_message(&w->function_table, P_FUNCTION, &m);
        buf_free(&m);
    }
    return number;
}

/* ---- messages ---- */

static void put_type(struct writer *w, unsigned field, const struct series_type *type)
{
    proto_number(&w->message, 1, string(w, type->name));
    proto_number(&w->message, 2, string(w, type->unit));
    proto_message(&w->b, field, &w->message);
}

static int put_location(struct writer *w, size_t i)
{
    const struct profile_pc *pc = &w->series->pcs[i];
    proto_number(&w->message, 1, i + 1);
    if (pc->module)
        proto_number(&w->message, 2, w->mapping_of[pc->module - w->profile->rec.modules]);
    proto_number(&w->message, 3, pc->pc);
    for (uint32_t k = 0; k < pc->count; k++) {
        proto_number(&w->inside, 1, function(w, &pc->frames[k]));
        proto_number(&w->inside, 2, pc->frames[k].line);
        proto_message(&w->message, 4, &w->inside);
    }
    proto_message(&w->b, P_LOCATION, &w->message);
    return buf_flush(&w->b, w->out, false);
}

/* Labels are the parts of a program that a sample belongs to. */
static void put_label(struct writer *w, const char *key, const char *text, uint64_t number)
{
    if (!(text && *text) && number == 0)
        return;
    proto_number(&w->inside, 1, string(w, key));
    if (text)
        proto_number(&w->inside, 2, string(w, text));
    proto_number(&w->inside, 3, number);
    proto_message(&w->message, 3, &w->inside);
}

static void put_labels(struct writer *w, const struct series_row *row)
{
    bool own = !w->profile || row->pid == w->profile->rec.header.pid;
    /* The text of another process is in the recording: only its own name needs room. */
    put_label(w, "process",
              own ? w->process : export_process_name(w->process, &w->profile->rec, row->pid), 0);
    put_label(w, "pid", NULL, row->pid);
    put_label(w, "thread", row->thread, 0);
    put_label(w, "tid", NULL, row->tid);
    put_label(w, "task", row->task, 0);
}

static int put_sample(struct writer *w, const struct series_row *row,
                      struct export_rounding *rounding)
{
    for (uint32_t i = 0; i < row->depth; i++)
        proto_varint(&w->inside, row->pcs[i] + 1);
    if (row->depth == 0)
        proto_varint(&w->inside, w->series->pc_count + 1); /* "(no stack)" */
    w->lacks_stacks |= row->depth == 0;
    proto_message(&w->message, 1, &w->inside);
    for (size_t i = 0; i < w->series->type_count; i++)
        proto_varint(&w->inside, (uint64_t)export_round(&rounding[i], row->values[i]));
    proto_message(&w->message, 2, &w->inside);
    put_labels(w, row);
    proto_message(&w->b, P_SAMPLE, &w->message);
    return buf_flush(&w->b, w->out, false);
}

static int put_samples(struct writer *w)
{
    struct export_rounding rounding[SERIES_MOST] = {{0}};
    int err = 0;
    for (size_t i = 0; i < w->series->row_count && err == 0; i++)
        err = put_sample(w, &w->series->rows[i], rounding);
    return err;
}

static int put_locations(struct writer *w)
{
    int err = 0;
    for (size_t i = 0; i < w->series->pc_count && err == 0; i++)
        err = put_location(w, i);
    if (!w->lacks_stacks)
        return err;
    proto_number(&w->message, 1, w->series->pc_count + 1);
    proto_number(&w->inside, 1, function(w, &profile_no_stack));
    proto_message(&w->message, 4, &w->inside);
    proto_message(&w->b, P_LOCATION, &w->message);
    return err;
}

/* ---- mappings ---- */

static bool is_same_file(const struct recording_module *a, const struct recording_module *b)
{
    return a->bias == b->bias && a->build_id_len == b->build_id_len &&
           memcmp(a->build_id, b->build_id, a->build_id_len) == 0 && strcmp(a->path, b->path) == 0;
}

/* Adds module M, number I of the recording, to a mapping of the same file at the same place. */
static void add_module(struct writer *w, const struct recording_module *m, size_t i,
                       struct map *known)
{
    const uint64_t id[] = {map_hash(m->path, strlen(m->path)), m->bias,
                           map_hash(m->build_id, m->build_id_len)};
    uint64_t key = map_hash(id, sizeof(id));
    uint32_t at;
    for (; (at = map_find(known, key)) != MAP_NONE; key++) {
        struct mapping *same = &w->mappings[at];
        if (!is_same_file(same->module, m))
            continue;
        same->start = m->start < same->start ? m->start : same->start;
        same->end = m->end > same->end ? m->end : same->end;
        w->mapping_of[i] = at + 1;
        return;
    }
    struct mapping *new = &w->mappings[w->mapping_count];
    *new = (struct mapping){.module = m, .start = m->start, .end = m->end};
    for (size_t k = 0; k < m->build_id_len; k++)
        snprintf(new->build_id + 2 * k, 3, "%02x", m->build_id[k]);
    w->failed |= map_put(known, key, (uint32_t)w->mapping_count) != 0;
    w->mapping_of[i] = (uint32_t)++w->mapping_count;
}

/* Readers take the first mapping for the program. */
static int make_mappings(struct writer *w)
{
    const struct recording *rec = &w->profile->rec;
    struct map known = {.slots = NULL};
    w->mappings = calloc(rec->module_count + 1, sizeof(*w->mappings));
    w->mapping_of = calloc(rec->module_count + 1, sizeof(*w->mapping_of));
    if (!w->mappings || !w->mapping_of)
        return -ENOMEM;
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < rec->module_count; i++)
            if ((strcmp(rec->modules[i].path, rec->header.program) != 0) == others)
                add_module(w, &rec->modules[i], i, &known);
    map_release(&known);
    return w->failed ? -ENOMEM : 0;
}

static int put_mappings(struct writer *w)
{
    int err = w->profile ? make_mappings(w) : 0;
    for (size_t i = 0; i < w->mapping_count && err == 0; i++) {
        const struct mapping *m = &w->mappings[i];
        proto_number(&w->message, 1, i + 1);
        proto_number(&w->message, 2, m->start);
        proto_number(&w->message, 3, m->end);
        proto_number(&w->message, 4, m->start - m->module->bias);
        proto_number(&w->message, 5, string(w, m->module->path));
        proto_number(&w->message, 6, string(w, m->build_id));
        for (unsigned has = 7; has <= 10; has++) /* functions, files, lines, inlined frames */
            proto_number(&w->message, has, 1);
        proto_message(&w->b, P_MAPPING, &w->message);
    }
    return err ? err : buf_flush(&w->b, w->out, false);
}

/* ---- all ---- */

static void put_head(struct writer *w)
{
    const struct series *t = w->series;
    proto_bytes(&w->strings, P_STRINGS, "", 0);
    for (size_t i = 0; i < t->type_count; i++)
        put_type(w, P_SAMPLE_TYPE, &t->types[i]);
    put_type(w, P_PERIOD_TYPE, &t->period_type);
    proto_number(&w->b, P_PERIOD, t->period);
    proto_number(&w->b, P_DEFAULT_SAMPLE_TYPE, string(w, t->types[t->chosen].name));
    proto_number(&w->b, P_TIME_NANOS, t->start_real_ns);
    proto_number(&w->b, P_DURATION_NANOS, t->duration_ns);
    proto_number(&w->b, P_COMMENT, string(w, "piano: estimates, final; not to be scaled"));
}

static int put_all(struct writer *w)
{
    put_head(w);
    int err = put_mappings(w);
    if (err == 0)
        err = put_samples(w);
    if (err == 0)
        err = put_locations(w);
    proto_merge(&w->b, &w->function_table);
    proto_merge(&w->b, &w->strings);
    if (w->failed)
        err = -ENOMEM;
    return err ? err : buf_flush(&w->b, w->out, true);
}

static void release(struct writer *w)
{
    struct buf *const bufs[] = {&w->b, &w->message, &w->inside, &w->strings, &w->function_table};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
        buf_free(bufs[i]);
    struct names *const tables[] = {&w->texts, &w->functions};
    for (size_t i = 0; i < 2; i++) {
        free(tables[i]->list);
        map_release(&tables[i]->index);
    }
    free(w->mappings);
    free(w->mapping_of);
}

int export_pprof(FILE *out, const struct export_source *s)
{
    struct series t;
    int err = series_make(&t, s, false);
    if (err == 0) {
        struct writer w = {.series = &t, .profile = s->profile, .out = out};
        char text[PIANO_REC_PATH];
        snprintf(w.process, sizeof(w.process), "%s", export_program(text, s));
        err = put_all(&w);
        release(&w);
    }
    series_release(&t);
    return err;
}
