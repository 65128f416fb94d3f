/* See deque.h. `top` only ever grows, so an index is never mistaken for an older one. */
#include "deque.h"

#include <stdlib.h>

static struct deque_array *new_array(int64_t size, struct deque_array *outgrown)
{
    struct deque_array *a = malloc(sizeof *a + (size_t)size * sizeof a->items[0]);
    if (a) {
        a->outgrown = outgrown;
        a->size = size;
    }
    return a;
}

static _Atomic(void *) *item_at(struct deque_array *a, int64_t i)
{
    return &a->items[i & (a->size - 1)];
}

bool deque_init(struct deque *d)
{
    struct deque_array *a = new_array(64, NULL);
    atomic_init(&d->top, 0);
    atomic_init(&d->bottom, 0);
    atomic_init(&d->array, a);
    return a != NULL;
}

void deque_destroy(struct deque *d)
{
    struct deque_array *a = atomic_load_explicit(&d->array, memory_order_relaxed);
    while (a) {
        struct deque_array *outgrown = a->outgrown;
        free(a);
        a = outgrown;
    }
}

static struct deque_array *grow(struct deque *d, struct deque_array *a, int64_t top, int64_t bottom)
{
    struct deque_array *more = new_array(2 * a->size, a);
    if (!more)
        return NULL;
    for (int64_t i = top; i < bottom; i++)
        atomic_store_explicit(item_at(more, i),
                              atomic_load_explicit(item_at(a, i), memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&d->array, more, memory_order_release);
    return more;
}

bool deque_push(struct deque *d, void *item)
{
    int64_t bottom = atomic_load_explicit(&d->bottom, memory_order_relaxed);
    int64_t top = atomic_load_explicit(&d->top, memory_order_acquire);
    struct deque_array *a = atomic_load_explicit(&d->array, memory_order_relaxed);
    if (bottom - top > a->size - 1)
        a = grow(d, a, top, bottom);
    if (!a)
        return false;
    atomic_store_explicit(item_at(a, bottom), item, memory_order_relaxed);
    /* Pairs with the acquire of `bottom` in deque_steal: a thief that sees the slot sees the item. */
    atomic_store_explicit(&d->bottom, bottom + 1, memory_order_release);
    return true;
}

void *deque_take(struct deque *d)
{
    int64_t bottom = atomic_load_explicit(&d->bottom, memory_order_relaxed) - 1;
    struct deque_array *a = atomic_load_explicit(&d->array, memory_order_relaxed);
    atomic_store_explicit(&d->bottom, bottom, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    int64_t top = atomic_load_explicit(&d->top, memory_order_relaxed);
    void *item = NULL;
    if (top <= bottom)
        item = atomic_load_explicit(item_at(a, bottom), memory_order_relaxed);
    if (top < bottom)
        return item;
    /* The deque is empty or has one item, which a thief may take at the same time. */
    if (top == bottom && !atomic_compare_exchange_strong_explicit(
                             &d->top, &top, top + 1, memory_order_seq_cst, memory_order_relaxed))
        item = NULL;
    atomic_store_explicit(&d->bottom, bottom + 1, memory_order_relaxed);
    return item;
}

void *deque_steal(struct deque *d)
{
    for (;;) {
        int64_t top = atomic_load_explicit(&d->top, memory_order_acquire);
        atomic_thread_fence(memory_order_seq_cst);
        int64_t bottom = atomic_load_explicit(&d->bottom, memory_order_acquire);
        if (top >= bottom)
            return NULL;
        struct deque_array *a = atomic_load_explicit(&d->array, memory_order_acquire);
        void *item = atomic_load_explicit(item_at(a, top), memory_order_relaxed);
        if (atomic_compare_exchange_strong_explicit(&d->top, &top, top + 1, memory_order_seq_cst,
                                                    memory_order_relaxed))
            return item;
    }
}

size_t deque_depth(const struct deque *d)
{
    int64_t depth = atomic_load_explicit(&d->bottom, memory_order_relaxed) -
                    atomic_load_explicit(&d->top, memory_order_relaxed);
    return depth > 0 ? (size_t)depth : 0;
}
