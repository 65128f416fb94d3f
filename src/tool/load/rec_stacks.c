/* Modules and stacks of a recording.
 *
 * A stack with two ids (two threads saw it first at the same time) becomes one. Stacks are
 * identified by their addresses, the generation of their modules, and whether the memory is from
 * mmap. The hash in the file is not trusted. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

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
        rec_gap(rec, at, at + bytes, "a module that makes no sense");
        return 0;
    }
    if (rec->module_count == REC_MAX_MODULES) {
        rec_gap(rec, at, at + bytes, "more modules than can be read");
        return 0;
    }
    struct recording_module *more =
        rec_grow(rec->modules, rec->module_count, &r->module_cap, sizeof(*more));
    if (!more)
        return -ENOMEM;
    rec->modules = more;
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
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->since > y->since) - (x->since < y->since);
}

/* Returns the first module that is not before START and, of equal ones, SINCE. */
static size_t module_bound(const struct recording *rec, uint64_t start, uint64_t since)
{
    size_t low = 0, high = rec->module_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct recording_module *m = &rec->modules[mid];
        if (m->start < start || (m->start == start && m->since < since))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
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
        size_t behind = generation < UINT32_MAX ? module_bound(rec, start, generation + 1) : at;
        const struct recording_module *m = behind > first ? &rec->modules[behind - 1] : NULL;
        bool by_tool = m && m->since >= PIANO_TOOL_STACK;
        if (m && pc < m->end && (generation < m->until || m->until == UINT32_MAX) &&
            by_tool == (generation >= PIANO_TOOL_STACK))
            return m;
        at = first;
    }
    return NULL;
}

/* ---- stacks ---- */

/* Open addressing over the distinct stacks. 0 is a free slot, and stack 0 is never in it. The seed
 * is random, so a file cannot be crafted to put all its stacks into one slot. */
struct set {
    uint32_t *slots;
    size_t size; /* a power of two */
    uint64_t seed;
};

static uint64_t hash_stack(const struct recording_stack *s, uint64_t seed)
{
    uint64_t h = seed ^ s->generation ^ (s->flags & PIANO_STACK_MMAP);
    for (uint32_t i = 0; i < s->depth; i++) {
        h = (h ^ s->pcs[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static bool same_stack(const struct recording_stack *a, const struct recording_stack *b)
{
    return a->depth == b->depth && a->generation == b->generation &&
           (a->flags & PIANO_STACK_MMAP) == (b->flags & PIANO_STACK_MMAP) &&
           memcmp(a->pcs, b->pcs, a->depth * sizeof(*a->pcs)) == 0;
}

static int set_grow(struct set *set, const struct recording *rec)
{
    if (rec->stack_count * 2 < set->size)
        return 0;
    size_t size = set->size ? set->size * 2 : 1024;
    uint32_t *slots = calloc(size, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (uint32_t i = 1; i < rec->stack_count; i++) {
        size_t at = hash_stack(&rec->stacks[i], set->seed) & (size - 1);
        while (slots[at])
            at = (at + 1) & (size - 1);
        slots[at] = i;
    }
    free(set->slots);
    set->slots = slots;
    set->size = size;
    return 0;
}

/* Returns the slot of S, or the free slot for it. */
static uint32_t *set_find(const struct set *set, const struct recording *rec,
                          const struct recording_stack *s)
{
    size_t at = hash_stack(s, set->seed) & (set->size - 1);
    while (set->slots[at] && !same_stack(&rec->stacks[set->slots[at]], s))
        at = (at + 1) & (set->size - 1);
    return &set->slots[at];
}

static int add_id(struct rec_reader *r, uint32_t id, uint32_t stack)
{
    struct rec_id *more = rec_grow(r->ids, r->id_count, &r->id_cap, sizeof(*more));
    if (!more)
        return -ENOMEM;
    r->ids = more;
    r->ids[r->id_count++] = (struct rec_id){id, stack};
    return 0;
}

static int add_stack(struct rec_reader *r, struct set *set, const struct recording_stack *s,
                     uint32_t id)
{
    struct recording *rec = r->rec;
    int err = set_grow(set, rec);
    if (err)
        return err;
    uint32_t *slot = set_find(set, rec, s);
    if (*slot) {
        rec->stacks[*slot].flags |= s->flags;
        rec->merged_stacks++;
        return add_id(r, id, *slot);
    }
    struct recording_stack *more =
        rec_grow(rec->stacks, rec->stack_count, &r->stack_cap, sizeof(*more));
    if (!more)
        return -ENOMEM;
    rec->stacks = more;
    *slot = (uint32_t)rec->stack_count;
    rec->stacks[rec->stack_count++] = *s;
    return add_id(r, id, *slot);
}

static int take_stack(struct rec_reader *r, void *set, const char *record, uint32_t bytes,
                      uint64_t at)
{
    struct piano__stack s;
    memcpy(&s, record, sizeof(s));
    bool sane = s.id > 0 && s.depth <= PIANO_MAX_FRAMES &&
                sizeof(s) + (size_t)s.depth * sizeof(s.pcs[0]) <= bytes;
    if (!sane) {
        rec_gap(r->rec, at, at + bytes, "a stack that makes no sense");
        return 0;
    }
    if (r->id_count >= REC_MAX_STACKS) {
        rec_gap(r->rec, at, at + bytes, "more stacks than can be read");
        return 0;
    }
    struct recording_stack new = {.flags = s.flags,
                                  .depth = s.depth,
                                  .generation = s.generation,
                                  .pcs = (const uint64_t *)(const void *)(record + sizeof(s))};
    return add_stack(r, set, &new, s.id);
}

static int compare_ids(const void *a, const void *b)
{
    const struct rec_id *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

uint32_t rec_stack_of(const struct rec_reader *r, uint32_t id)
{
    size_t low = 0, high = r->id_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->ids[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->id_count && r->ids[low].id == id ? r->ids[low].stack : 0;
}

int rec_read_stacks(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    struct set set = {.slots = NULL};
    if (getrandom(&set.seed, sizeof(set.seed), GRND_NONBLOCK) < 0)
        set.seed = (uintptr_t)&set;
    rec->stacks = rec_grow(NULL, 0, &r->stack_cap, sizeof(*rec->stacks));
    if (!rec->stacks)
        return -ENOMEM;
    rec->stacks[0] = (struct recording_stack){.depth = 0};
    rec->stack_count = 1;
    int err = rec_each(r, PIANO_CHUNK_MODULES, sizeof(struct piano__module),
                       "a module that cannot be read: the rest of its chunk is left out",
                       add_module, NULL);
    if (err == 0)
        err = rec_each(r, PIANO_CHUNK_STACKS, sizeof(struct piano__stack),
                       "a stack that cannot be read: the rest of its chunk is left out", take_stack,
                       &set);
    free(set.slots);
    if (r->id_count)
        qsort(r->ids, r->id_count, sizeof(*r->ids), compare_ids);
    if (rec->module_count)
        qsort(rec->modules, rec->module_count, sizeof(*rec->modules), compare_modules);
    return err;
}
