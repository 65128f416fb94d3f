/* Modules and stacks of a recording.
 *
 * A stack with two ids (two threads saw it first at the same time) becomes one. Stacks are
 * identified by their addresses, the generation of their modules, and whether the memory is from
 * mmap. The hash in the file is not trusted. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

/* ---- modules ---- */

static int add_module(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                      uint64_t at)
{
    (void)ctx;
    struct recording *rec = r->rec;
    struct piano__module m;
    memcpy(&m, record, sizeof(m));
    const char *path = record + sizeof(m);
    const char *end = memchr(path, '\0', bytes - sizeof(m));
    if (!end || m.end <= m.start || m.build_id_len > sizeof(m.build_id)) {
        rec_gap(rec, at, at + bytes, "an invalid module");
        return 0;
    }
    if (rec->module_count == REC_MAX_MODULES) {
        rec_gap(rec, at, at + bytes, "more modules than can be read");
        return 0;
    }
    if (VEC_DOUBLE(rec->modules, rec->module_count) != 0)
        return -ENOMEM;
    struct recording_module *new = &rec->modules[rec->module_count];
    *new = (struct recording_module){.path = strndup(path, (size_t)(end - path)),
                                     .start = m.start,
                                     .end = m.end,
                                     .bias = m.bias,
                                     .since = m.since,
                                     .until = m.until,
                                     .build_id_len = m.build_id_len};
    memcpy(new->build_id, m.build_id, sizeof(m.build_id));
    if (!new->path)
        return -ENOMEM;
    rec->module_count++;
    return 0;
}

static int compare_modules(const void *a, const void *b)
{
    const struct recording_module *x = a, *y = b;
    return ORDER(x->start, y->start) ?: ORDER(x->since, y->since);
}

void rec_sort_modules(struct recording *rec)
{
    if (rec->module_count)
        qsort(rec->modules, rec->module_count, sizeof(*rec->modules), compare_modules);
}

/* Returns the first module that is not before START and, of equal ones, SINCE. */
static size_t module_bound(const struct recording *rec, uint64_t start, uint64_t since)
{
    return ORDER_BOUND(at, rec->module_count,
                       rec->modules[at].start < start ||
                           (rec->modules[at].start == start && rec->modules[at].since < since));
}

/* Generations of the tool, which observes several processes, begin where those of the program end:
 * neither has a module of the other.
 *
 * Module starts are tried backwards from the address because unloaded libraries may overlap. At one
 * start only the last module loaded can match. The number of tries is limited for malicious
 * files. */
enum { MODULE_TRIES = 256 };

const struct recording_module *recording_module_of(const struct recording *rec, uint64_t pc,
                                                   uint64_t generation)
{
    size_t at = module_bound(rec, pc, UINT64_MAX); /* first that begins after PC */
    for (int tries = 0; at > 0 && tries < MODULE_TRIES; tries++) {
        uint64_t start = rec->modules[at - 1].start;
        size_t first = module_bound(rec, start, 0);
        size_t behind = module_bound(rec, start, generation + 1);
        const struct recording_module *m = behind > first ? &rec->modules[behind - 1] : NULL;
        bool by_tool = m && (uint32_t)m->since >= PIANO_TOOL_STACK;
        if (m && pc < m->end && (generation < m->until || (uint32_t)m->until == UINT32_MAX) &&
            m->since >> 32 == generation >> 32 &&
            by_tool == ((uint32_t)generation >= PIANO_TOOL_STACK))
            return m;
        at = first;
    }
    return NULL;
}

/* ---- stacks ---- */

static bool same_stack(const struct recording_stack *a, const struct recording_stack *b)
{
    return a->depth == b->depth && a->generation == b->generation &&
           (a->flags & PIANO_STACK_MMAP) == (b->flags & PIANO_STACK_MMAP) &&
           memcmp(a->pcs, b->pcs, a->depth * sizeof(*a->pcs)) == 0;
}

static int add_id(struct rec_reader *r, uint32_t id, uint32_t stack)
{
    if (VEC_DOUBLE(r->ids, r->id_count) != 0)
        return -ENOMEM;
    r->ids[r->id_count++] = (struct rec_id){id, stack};
    return 0;
}

/* KNOWN maps the hash of a stack to its index. */
static int add_stack(struct rec_reader *r, struct map *known, const struct recording_stack *s,
                     uint32_t id)
{
    struct recording *rec = r->rec;
    /* Not a sum: consecutive keys would let a file make long chains of collisions. */
    const uint64_t parts[] = {map_hash(s->pcs, s->depth * sizeof(*s->pcs)), s->generation,
                              s->flags & PIANO_STACK_MMAP};
    uint64_t key = map_hash(parts, sizeof(parts));
    uint32_t at;
    while ((at = map_find(known, key)) != MAP_NONE && !same_stack(&rec->stacks[at], s))
        key++;
    if (at != MAP_NONE) {
        rec->stacks[at].flags |= s->flags;
        rec->merged_stacks++;
        return add_id(r, id, at);
    }
    at = (uint32_t)rec->stack_count;
    if (VEC_DOUBLE(rec->stacks, rec->stack_count) != 0 || map_put(known, key, at) != 0)
        return -ENOMEM;
    rec->stacks[rec->stack_count++] = *s;
    return add_id(r, id, at);
}

static int take_stack(struct rec_reader *r, void *known, const char *record, uint32_t bytes,
                      uint64_t at)
{
    struct piano__stack s;
    memcpy(&s, record, sizeof(s));
    bool sane = s.id > 0 && s.depth <= PIANO_MAX_FRAMES &&
                sizeof(s) + (size_t)s.depth * sizeof(s.pcs[0]) <= bytes;
    if (!sane) {
        rec_gap(r->rec, at, at + bytes, "an invalid stack");
        return 0;
    }
    if (r->id_count >= REC_MAX_STACKS) {
        rec_gap(r->rec, at, at + bytes, "more stacks than can be read");
        return 0;
    }
    struct recording_stack new = {.flags = s.flags,
                                  .depth = s.depth,
                                  .generation =
                                      s.generation < UINT32_MAX ? s.generation : UINT32_MAX,
                                  .pcs = (const uint64_t *)(const void *)(record + sizeof(s))};
    return add_stack(r, known, &new, s.id);
}

static int compare_ids(const void *a, const void *b)
{
    const struct rec_id *x = a, *y = b;
    return ORDER(x->id, y->id) ?: ORDER(x->stack, y->stack);
}

uint32_t rec_stack_of(const struct rec_reader *r, uint32_t id)
{
    size_t low = ORDER_BOUND(at, r->id_count, r->ids[at].id < id);
    return low < r->id_count && r->ids[low].id == id ? r->ids[low].stack : 0;
}

int rec_read_stacks(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    struct map known = {.slots = NULL};
    if (VEC_DOUBLE(rec->stacks, rec->stack_count) != 0)
        return -ENOMEM;
    rec->stacks[0] = (struct recording_stack){.depth = 0};
    rec->stack_count = 1;
    int err = rec_each(r, PIANO_CHUNK_MODULES, sizeof(struct piano__module),
                       "a module that cannot be read: the rest of its chunk is left out",
                       add_module, NULL);
    if (err == 0)
        err = rec_each(r, PIANO_CHUNK_STACKS, sizeof(struct piano__stack),
                       "a stack that cannot be read: the rest of its chunk is left out", take_stack,
                       &known);
    map_release(&known);
    if (r->id_count)
        qsort(r->ids, r->id_count, sizeof(*r->ids), compare_ids);
    rec_sort_modules(rec);
    return err;
}
