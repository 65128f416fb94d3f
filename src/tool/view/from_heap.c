/* Converts the heap of a recording to tables: one site per stack, the sampled live blocks, memory
 * over time. */
#include <errno.h>
#include <stdlib.h>

#include "tool/util/order.h"
#include "tool/view/packer.h"

enum {
    SITES_OVER_TIME = 200, /* sites shown separately over time: a chart has no more colours */
    MOST_POINTS = 1 << 21, /* maximum rows of sites over time */
    MOST_BLOCKS = 1 << 20,
};

/* ---- sites ---- */

/* A stack with allocations, and its node in the tree. */
struct placed {
    uint32_t node, stack;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return ORDER(x->node, y->node) ?: ORDER(x->stack, y->stack);
}

static void put_site(const struct packer *k, struct pack_table *t, const struct profile *p,
                     const struct placed *placed, uint32_t flags, const struct recording_sum *s)
{
    const struct profile_stack *stack = &p->stacks[placed->stack];
    uint32_t node = placed->node, caller = PACK_NONE;
    struct column *c = t->columns;
    if (stack->caller_frame != PROFILE_NO_FRAME)
        caller = trie_outwards(&k->trie, node, stack->caller_frame);
    const double figures[] = {s->live_bytes,        s->live_objects, s->allocated_bytes,
                              s->allocated_objects, s->freed_bytes,  s->peak_bytes,
                              recording_churn(s)};
    bool cut = flags & (PIANO_STACK_LOST | PIANO_STACK_FULL);
    column_put(&c[0], node);
    for (size_t i = 0; i < 7; i++)
        column_put_f64(&c[1 + i], figures[i]);
    column_put(&c[8], recording_median_life(s));
    column_put(&c[9], figure_whole((double)s->live_samples));
    column_put(&c[10], figure_whole((double)s->samples));
    column_put(&c[11], s->live_samples ? packer_moment(k, s->oldest_ns) : -1);
    column_put(&c[12], figure_whole((double)s->freed_samples));
    column_put(&c[13], trie_outwards(&k->trie, node, stack->site_frame));
    column_put(&c[14], (flags & PIANO_STACK_MMAP ? 1 : 0) | (cut ? 2 : 0));
    column_put(&c[15], caller);
    SCHEMA_WRITES(sites, 16);
}

/* Stacks with equal frames are one site. SITE_OF receives the row of each stack. */
static int put_sites(struct packer *k, struct packer_stacks *s, uint32_t *site_of, size_t *count)
{
    struct profile *p = s->profile;
    struct placed *list = calloc(p->rec.stack_count + 1, sizeof(*list));
    struct pack_table *t = pack_add(&k->pack, SCHEMA_sites);
    size_t placed = 0;
    *count = 0;
    for (uint32_t i = 0; list && i < p->rec.stack_count; i++)
        if (profile_has_site(p, i))
            list[placed++] = (struct placed){packer_node(k, s, i), i};
    if (!list || !t || k->trie.failed) {
        free(list);
        return -ENOMEM;
    }
    qsort(list, placed, sizeof(*list), compare_placed);
    for (size_t i = 0, end; i < placed; i = end) {
        struct recording_sum sum = {.samples = 0};
        uint32_t flags = 0;
        for (end = i; end < placed && list[end].node == list[i].node; end++) {
            recording_sum_add(&sum, &p->rec.stacks[list[end].stack].sum);
            flags |= p->rec.stacks[list[end].stack].flags;
            site_of[list[end].stack] = (uint32_t)*count;
        }
        put_site(k, t, p, &list[i], flags, &sum);
        ++*count;
    }
    free(list);
    return 0;
}

/* ---- blocks ---- */

static int compare_births(const void *a, const void *b)
{
    const struct recording_block *x = a, *y = b;
    return ORDER(x->birth_ns, y->birth_ns) ?: ORDER(x->tid, y->tid);
}

static int put_blocks(struct packer *k, struct packer_stacks *s)
{
    struct recording_block *blocks = NULL;
    size_t count = 0;
    int err = recording_blocks(&s->profile->rec, &blocks, &count);
    if (err || count == 0) {
        free(blocks);
        return err;
    }
    qsort(blocks, count, sizeof(*blocks), compare_births);
    if (count > MOST_BLOCKS) { /* keep the oldest, which matter most */
        packer_notice(k,
                      "%zu of %zu live blocks are not listed one by one on the page: the youngest",
                      count - MOST_BLOCKS, count);
        count = MOST_BLOCKS;
    }
    struct pack_table *t = pack_add(&k->pack, SCHEMA_blocks_live);
    for (size_t i = 0; t && i < count; i++) {
        const struct recording_block *b = &blocks[i];
        column_put(&t->columns[0], packer_moment(k, b->birth_ns));
        column_put(&t->columns[1], b->size < (uint64_t)INT64_MAX ? (int64_t)b->size : INT64_MAX);
        column_put_f64(&t->columns[2], b->bytes);
        column_put(&t->columns[3], lanes_of(&k->lanes, b->tid));
        column_put(&t->columns[4], packer_node(k, s, b->stack));
        SCHEMA_WRITES(blocks_live, 5);
    }
    free(blocks);
    return t && !k->trie.failed ? 0 : -ENOMEM;
}

/* ---- over time ---- */

struct ranked {
    double most;
    uint32_t site;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return ORDER(y->most, x->most) ?: ORDER(x->site, y->site);
}

/* Chooses the sites that are shown separately, by the most they ever held. SLOT_OF receives 1 + the
 * index of each chosen site. */
static int choose_sites(const struct recording *rec, const uint32_t *site_of, size_t sites,
                        size_t wanted, uint32_t *slot_of, uint32_t *chosen, size_t *chosen_count)
{
    struct ranked *ranked = calloc(sites + 1, sizeof(*ranked));
    double *now = calloc(sites + 1, sizeof(*now));
    *chosen_count = 0;
    for (uint32_t i = 0; ranked && i < sites; i++)
        ranked[i].site = i;
    for (size_t n = 0; ranked && now && n < rec->snapshot_count; n++) {
        const struct recording_snapshot *s = &rec->snapshots[n];
        for (size_t e = 0; e < s->count; e++) {
            uint32_t site = site_of[s->entries[e].stack];
            if (site == PACK_NONE)
                continue;
            now[site] += s->entries[e].live_bytes;
            if (now[site] > ranked[site].most)
                ranked[site].most = now[site];
        }
        for (size_t e = 0; e < s->count; e++)
            if (site_of[s->entries[e].stack] != PACK_NONE)
                now[site_of[s->entries[e].stack]] = 0;
    }
    bool fine = ranked && now;
    if (fine && sites)
        qsort(ranked, sites, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; fine && i < sites && i < wanted && ranked[i].most > 0; i++) {
        chosen[i] = ranked[i].site;
        slot_of[ranked[i].site] = (uint32_t)++ * chosen_count;
    }
    free(ranked);
    free(now);
    return fine ? 0 : -ENOMEM;
}

static int compare_moments(const void *a, const void *b)
{
    const struct recording_snapshot *x = *(const struct recording_snapshot *const *)a,
                                    *y = *(const struct recording_snapshot *const *)b;
    return ORDER(x->at_ns, y->at_ns) ?: ORDER(x->number, y->number);
}

/* Writes one snapshot: its row, and what each chosen site held. */
static void put_snapshot(const struct packer *k, struct pack_table *const tables[2], size_t number,
                         const struct recording_snapshot *s, const uint32_t *site_of,
                         const uint32_t *slot_of, const uint32_t *chosen, size_t chosen_count)
{
    double held[SITES_OVER_TIME] = {0};
    column_put(&tables[0]->columns[0], packer_moment(k, s->at_ns));
    column_put_f64(&tables[0]->columns[1], s->live_bytes);
    column_put_f64(&tables[0]->columns[2], s->allocated_bytes);
    column_put_f64(&tables[0]->columns[3], (double)s->resident_bytes);
    SCHEMA_WRITES(snapshots, 4);
    for (size_t e = 0; e < s->count; e++) {
        uint32_t site = site_of[s->entries[e].stack];
        if (site != PACK_NONE && slot_of[site])
            held[slot_of[site] - 1] += s->entries[e].live_bytes;
    }
    for (size_t i = 0; i < chosen_count; i++) {
        if (!(held[i] > 0))
            continue;
        column_put(&tables[1]->columns[0], (int64_t)number);
        column_put(&tables[1]->columns[1], chosen[i]);
        column_put_f64(&tables[1]->columns[2], held[i]);
        SCHEMA_WRITES(snapshot_sites, 3);
    }
}

static int put_snapshots(struct packer *k, const struct recording *rec, const uint32_t *site_of,
                         size_t sites)
{
    uint32_t chosen[SITES_OVER_TIME];
    size_t count = rec->snapshot_count, chosen_count = 0;
    if (count == 0)
        return 0;
    size_t wanted = MOST_POINTS / count < SITES_OVER_TIME ? MOST_POINTS / count : SITES_OVER_TIME;
    uint32_t *slot_of = calloc(sites + 1, sizeof(*slot_of));
    const struct recording_snapshot **order = calloc(count, sizeof(const void *));
    struct pack_table *tables[2] = {pack_add(&k->pack, SCHEMA_snapshots),
                                    pack_add(&k->pack, SCHEMA_snapshot_sites)};
    int err = slot_of && order && tables[0] && tables[1] ? 0 : -ENOMEM;
    if (err == 0)
        err = choose_sites(rec, site_of, sites, wanted, slot_of, chosen, &chosen_count);
    for (size_t i = 0; i < count && err == 0; i++)
        order[i] = &rec->snapshots[i];
    if (err == 0)
        qsort(order, count, sizeof(*order), compare_moments);
    for (size_t i = 0; i < count && err == 0; i++)
        put_snapshot(k, tables, i, order[i], site_of, slot_of, chosen, chosen_count);
    free(slot_of);
    free(order);
    return err;
}

/* ---- all ---- */

int packer_add_heap(struct packer *k, struct packer_stacks *s)
{
    struct profile *p = s->profile;
    uint32_t *site_of = malloc((p->rec.stack_count + 1) * sizeof(*site_of));
    size_t sites = 0;
    struct run_error error;
    int err = site_of ? profile_make_sites(p, NULL, &error) : -ENOMEM;
    for (size_t i = 0; site_of && i <= p->rec.stack_count; i++)
        site_of[i] = PACK_NONE;
    if (err == 0) {
        heap_notices(p);
        err = k->digest.heap(k->digest.to, p);
    }
    if (err == 0)
        err = put_sites(k, s, site_of, &sites);
    if (err == 0)
        err = put_snapshots(k, &p->rec, site_of, sites);
    if (err == 0)
        err = put_blocks(k, s);
    free(site_of);
    return err;
}
