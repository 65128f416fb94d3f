/* Single live blocks. Their sums are already in their stacks (`rec_tables.c`). This gives the birth
 * time and thread of each block. */
#include "tool/load/rec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

/* A record is complete if its key is the same before and after the copy. The program clears the key
 * first when it frees a record and stores it last when it fills one. Pairs with both in
 * src/target/heap. */
bool rec_live_at(const volatile struct piano__live *from, struct piano__live *out)
{
    *out = (struct piano__live){.key = __atomic_load_n(&from->key, __ATOMIC_ACQUIRE)};
    if (out->key == 0)
        return false;
    out->size = from->size;
    out->rate = from->rate;
    out->birth_ns = from->birth_ns;
    out->stack = from->stack;
    out->thread = from->thread;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&from->key, __ATOMIC_RELAXED) == out->key;
}

/* See docs/heap.md: the probability of being sampled, and the weight that follows from it. */
static void weigh(struct recording_block *b, const struct piano__live *l)
{
    double size = l->size > 0 ? (double)l->size : 1;
    double chance = l->rate > 1 ? -expm1(-size / (double)l->rate) : 1;
    b->objects = chance > 0 ? 1 / chance : 1;
    b->bytes = (double)l->size * b->objects;
    if (!(b->bytes < REC_REASON))
        b->bytes = b->objects = 0;
}

static int compare(const void *a, const void *b)
{
    const struct recording_block *x = a, *y = b;
    return ORDER(x->tid, y->tid) ?: ORDER(x->birth_ns, y->birth_ns);
}

/* Adds the blocks of FROM; STACKS maps its stacks, unless it is NULL. */
static int add_blocks(const struct recording *from, const uint32_t *stacks,
                      struct recording_block **list, size_t *count)
{
    const struct rec_reader r = {.ids = from->ids, .id_count = from->id_count};
    for (size_t i = 0; i < from->live_chunk_count * PIANO_LIVE_PER_CHUNK; i++) {
        const struct rec_chunk *c = &from->live_chunks[i / PIANO_LIVE_PER_CHUNK];
        const volatile struct piano__live *all = (const volatile void *)c->payload;
        size_t at = i % PIANO_LIVE_PER_CHUNK;
        struct piano__live l;
        if ((at + 1) * sizeof(l) > c->there || !rec_live_at(&all[at], &l))
            continue;
        if (VEC_DOUBLE(*list, *count) != 0)
            return -ENOMEM;
        uint32_t stack = rec_stack_of(&r, l.stack);
        (*list)[*count] = (struct recording_block){.birth_ns = l.birth_ns,
                                                   .size = l.size,
                                                   .tid = l.thread,
                                                   .stack = stacks ? stacks[stack] : stack};
        weigh(&(*list)[(*count)++], &l);
    }
    return 0;
}

int recording_blocks(const struct recording *rec, struct recording_block **blocks, size_t *count)
{
    size_t n = 0;
    struct recording_block *list = NULL;
    int err = add_blocks(rec, NULL, &list, &n);
    for (size_t i = 0; i < rec->part_count && err == 0; i++)
        if (rec->parts[i].is_chosen)
            err = add_blocks(&rec->parts[i].rec, rec->parts[i].stacks, &list, &n);
    if (err) {
        free(list);
        return err;
    }
    if (n)
        qsort(list, n, sizeof(*list), compare);
    *blocks = list;
    *count = n;
    return 0;
}

size_t recording_block_bound(const struct recording_block *blocks, size_t count, uint32_t tid,
                             uint64_t at_ns)
{
    const struct recording_block key = {.tid = tid, .birth_ns = at_ns};
    return ORDER_BOUND(at, count, compare(&blocks[at], &key) < 0);
}
