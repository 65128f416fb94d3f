/* Table of the merged frames of a thread. Only the thread itself writes it.
 *
 * An entry is written out, as one line and one more per function, when the thread ends, when a
 * counter is full, or to make room for another root. The last case applies only to entries unused
 * for IDLE_FRAMES frames. Otherwise a program that cycles through more roots than there are entries
 * would write lines on every call. */
#include "target/span/merged.h"

#include <string.h>

#include "common/lines.h"
#include "target/span/commit.h"
#include "target/span/run.h"

enum {
    IDLE_FRAMES = 4096,
    GONE = PIANO_MERGED_REST + 1 /* `entry` of a histogram that was written */
};

static uint64_t scale(void)
{
    return piano__run.header->ns_per_tick_32;
}

struct piano__merged *piano__merged_of(struct piano__thread *t)
{
    char *text = (char *)(piano__entries(t) + PIANO_MAX_DEPTH);
    return (struct piano__merged *)(text + piano__run.header->text_bytes);
}

static uint32_t place_of(uint32_t entry, uint32_t id)
{
    return ((id * PIANO_MERGED_ROOTS + entry) * 0x9e3779b1u >> 16) % PIANO_MERGED_TABLE;
}

/* Returns the table slot of the histogram of ID, or the empty slot for it. The table is never more
 * than half full. */
static uint16_t *table_slot(struct piano__merged *m, uint32_t entry, uint32_t id)
{
    uint32_t i = place_of(entry, id);
    for (; m->table[i]; i = (i + 1) % PIANO_MERGED_TABLE) {
        const struct piano__merged_fn *fn = &m->fns[m->table[i] - 1];
        if (fn->id == id && fn->entry == entry)
            break;
    }
    return &m->table[i];
}

/* Removes the histograms of ENTRY and closes the gaps. */
static void forget_fns(struct piano__merged *m, uint32_t entry)
{
    uint32_t kept = 0;
    memset(m->table, 0, sizeof m->table);
    for (uint32_t i = 0; i < m->fn_count; i++) {
        if (m->fns[i].entry == entry)
            continue;
        if (kept != i)
            m->fns[kept] = m->fns[i];
        *table_slot(m, m->fns[kept].entry, m->fns[kept].id) = (uint16_t)(kept + 1);
        kept++;
    }
    m->fn_count = kept;
}

static void forget_root(struct piano__merged *m, uint32_t entry)
{
    memset(&m->roots[entry], 0, sizeof m->roots[entry]);
    memset(m->walls[entry], 0, sizeof m->walls[entry]);
    m->in_use--;
}

struct merged_line {
    const struct piano__merged *merged;
    uint32_t entry;
    uint32_t fn;
};

static void put_root(struct piano__text *text, struct piano__thread *t, const void *what)
{
    const struct merged_line *l = what;
    piano__line_merged(text, t->number, l->merged, l->entry, scale());
}

static void put_fn(struct piano__text *text, struct piano__thread *t, const void *what)
{
    const struct merged_line *l = what;
    piano__line_merged_fn(text, t->number, l->merged, l->fn);
}

/* Called after committed data is cleared, so that a reader finds it exactly once at any time. Pairs
 * with the acquire of `commit`, whose upper half this is, in common/live.c. */
static void end_clearing(struct piano__thread *t)
{
    __atomic_store_n(&t->clearing, 0, __ATOMIC_RELEASE);
}

static void write_entry(struct piano__thread *t, uint32_t entry, int64_t now)
{
    struct piano__merged *m = piano__merged_of(t);
    struct merged_line l = {m, entry, 0};
    if (m->roots[entry].frames == 0)
        return;
    for (l.fn = 0; l.fn < m->fn_count; l.fn++) {
        if (m->fns[l.fn].entry != entry)
            continue;
        t->tokens -= piano__commit_line(t, put_fn, &l, PIANO_CLEAR_MERGED_FN | l.fn << 8, now);
        m->fns[l.fn].entry = GONE;
        end_clearing(t);
    }
    t->tokens -= piano__commit_line(t, put_root, &l, PIANO_CLEAR_MERGED | entry << 8, now);
    forget_root(m, entry);
    end_clearing(t);
    forget_fns(m, GONE);
}

void piano__merged_repair(struct piano__thread *t, uint32_t clearing)
{
    struct piano__merged *m = piano__merged_of(t);
    uint32_t index = clearing >> 8;
    if (clearing & PIANO_CLEAR_MERGED && index <= PIANO_MERGED_REST && m->roots[index].frames > 0)
        forget_root(m, index);
    if (clearing & PIANO_CLEAR_MERGED_FN && index < m->fn_count)
        m->fns[index].entry = GONE;
    forget_fns(m, GONE);
    end_clearing(t);
}

/* Returns the least recently used entry; -1 if even that one is in use. */
static int idle_entry(const struct piano__thread *t, const struct piano__merged *m)
{
    int oldest = 0;
    for (int i = 1; i < PIANO_MERGED_ROOTS; i++)
        if (m->roots[i].used < m->roots[oldest].used)
            oldest = i;
    return t->frames - m->roots[oldest].used > IDLE_FRAMES ? oldest : -1;
}

struct piano__merged_root *piano__merged_entry(struct piano__thread *t, uint32_t root,
                                               int32_t depth, int32_t under, bool may_write,
                                               int64_t now)
{
    struct piano__merged *m = piano__merged_of(t);
    int unused = -1;
    for (int i = 0; i < PIANO_MERGED_ROOTS; i++) {
        const struct piano__merged_root *r = &m->roots[i];
        if (r->frames == 0)
            unused = i;
        else if (r->root == root && r->depth == depth && r->under == under)
            return &m->roots[i];
    }
    if (unused < 0 && may_write) {
        unused = idle_entry(t, m);
        if (unused >= 0)
            write_entry(t, (uint32_t)unused, now);
    }
    struct piano__merged_root *r = &m->roots[unused >= 0 ? unused : PIANO_MERGED_REST];
    if (r->frames > 0 && (r->depth != depth || r->under != under))
        write_entry(t, PIANO_MERGED_REST, now);
    r->root = root;
    r->depth = depth;
    r->under = under;
    return r;
}

void piano__merged_add(struct piano__thread *t, struct piano__merged_root *entry, int64_t wall,
                       int64_t now)
{
    struct piano__merged *m = piano__merged_of(t);
    uint32_t number = (uint32_t)(entry - m->roots);
    int64_t wall_ns = wall > 0 ? piano__ticks_ns(wall, scale()) : 0;
    unsigned bucket = piano__hist_bucket((uint64_t)wall_ns);
    if (bucket >= PIANO_MERGED_WALLS)
        bucket = PIANO_MERGED_WALLS - 1;
    if (m->walls[number][bucket] == UINT32_MAX) {
        struct piano__merged_root key = {
            .root = entry->root, .depth = entry->depth, .under = entry->under};
        write_entry(t, number, now);
        *entry = key;
    }
    m->in_use += entry->frames == 0;
    entry->frames++;
    entry->used = t->frames;
    entry->wall += wall;
    if (wall > entry->max)
        entry->max = wall;
    m->walls[number][bucket]++;
}

void piano__merged_onoff(struct piano__merged_root *entry, int64_t wall, struct piano__onoff onoff)
{
    if (onoff.cpu_ns < 0)
        return;
    entry->looked++;
    entry->looked_wall += piano__ticks_ns(wall, scale());
    entry->cpu += onoff.cpu_ns;
    if (onoff.runq_ns < 0)
        entry->runq = -1; /* sticky: the sum is valid only if known for all frames */
    else if (entry->runq >= 0)
        entry->runq += onoff.runq_ns;
}

/* Writes the line of a full counter and restarts it from zero. */
static void renew_fn(struct piano__thread *t, struct piano__merged *m, uint32_t fn, int64_t now)
{
    struct merged_line l = {m, m->fns[fn].entry, fn};
    t->tokens -= piano__commit_line(t, put_fn, &l, PIANO_CLEAR_MERGED_FN | fn << 8, now);
    memset(m->fns[fn].counts, 0, sizeof m->fns[fn].counts);
    end_clearing(t);
}

void piano__merged_self(struct piano__thread *t, struct piano__merged_root *entry, uint32_t id,
                        int64_t self_ns, int64_t now)
{
    struct piano__merged *m = piano__merged_of(t);
    uint32_t number = (uint32_t)(entry - m->roots);
    uint16_t *slot = table_slot(m, number, id);
    if (!*slot) {
        if (m->fn_count == PIANO_MERGED_FNS) {
            entry->unlisted += entry->unlisted < UINT32_MAX;
            return;
        }
        struct piano__merged_fn *fn = &m->fns[m->fn_count];
        memset(fn, 0, sizeof *fn);
        fn->id = id;
        fn->entry = (uint16_t)number;
        *slot = (uint16_t)++m->fn_count;
    }
    uint32_t fn = *slot - 1u;
    unsigned bucket = piano__merged_bucket(self_ns);
    if (m->fns[fn].counts[bucket] == UINT16_MAX)
        renew_fn(t, m, fn, now);
    m->fns[fn].counts[bucket]++;
}

void piano__merged_write(struct piano__thread *t, int64_t now)
{
    const struct piano__merged *m = piano__merged_of(t);
    for (uint32_t i = 0; m->in_use > 0 && i <= PIANO_MERGED_REST; i++)
        write_entry(t, i, now);
}

void piano__merged_clear(struct piano__thread *t)
{
    struct piano__merged *m = piano__merged_of(t);
    for (uint32_t i = 0; m->in_use > 0 && i <= PIANO_MERGED_REST; i++)
        if (m->roots[i].frames > 0)
            forget_root(m, i);
    if (m->fn_count > 0)
        memset(m->table, 0, sizeof m->table);
    m->fn_count = 0;
}
