/* A work-stealing deque after Chase and Lev, with the memory orders of Lê, Pop, Cohen and Zappa Nardelli (2013): the owner pushes
 * and takes at the bottom, other threads steal at the top. When it grows, the old array is kept until the end, because a thief may
 * still read it. */
#ifndef POOL_DEQUE_H
#define POOL_DEQUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deque_array {
    struct deque_array *outgrown;
    int64_t size; /* a power of two */
    _Atomic(void *) items[];
};

struct deque {
    _Alignas(64) _Atomic int64_t top;
    _Alignas(64) _Atomic int64_t bottom;
    _Atomic(struct deque_array *) array;
};

bool deque_init(struct deque *d);
void deque_destroy(struct deque *d);
bool deque_push(struct deque *d, void *item); /* owner only; false if there is no memory */
void *deque_take(struct deque *d);            /* owner only; NULL if the deque is empty */
void *deque_steal(struct deque *d);           /* any thread; NULL if the deque is empty */
size_t deque_depth(const struct deque *d);    /* approximate */

#endif
