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

int recording_blocks(const struct recording *rec, struct recording_block **blocks, size_t *count)
{
    const struct rec_reader r = {.ids = rec->ids, .id_count = rec->id_count};
    size_t n = 0;
    struct recording_block *list = NULL;
    for (size_t i = 0; i < rec->live_chunk_count * PIANO_LIVE_PER_CHUNK; i++) {
        const struct rec_chunk *c = &rec->live_chunks[i / PIANO_LIVE_PER_CHUNK];
        const volatile struct piano__live *all = (const volatile void *)c->payload;
        size_t at = i % PIANO_LIVE_PER_CHUNK;
        struct piano__live l;
        if ((at + 1) * sizeof(l) > c->there || !rec_live_at(&all[at], &l))
            continue;
        if (VEC_DOUBLE(list, n) != 0) {
            free(list);
            return -ENOMEM;
        }
        list[n] = (struct recording_block){.birth_ns = l.birth_ns,
                                           .size = l.size,
                                           .tid = l.thread,
                                           .stack = rec_stack_of(&r, l.stack)};
        weigh(&list[n++], &l);
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
