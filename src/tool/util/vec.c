/* Capacities double, so that adding an item takes constant time on average. */
#include "tool/util/vec.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 16 };

int vec_reserve(void *list, size_t *cap, size_t count, size_t size)
{
    void *items;
    size_t bytes, more = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;
    if (count <= *cap)
        return 0;
    more = more < LEAST ? LEAST : more;
    more = more < count ? count : more;
    /* memcpy, because LIST points to a pointer of any type. */
    memcpy(&items, list, sizeof(items));
    if (__builtin_mul_overflow(more, size, &bytes) || !(items = realloc(items, bytes)))
        return -ENOMEM;
    memcpy(list, &items, sizeof(items));
    *cap = more;
    return 0;
}

/* The array has room for the next power of two, and for LEAST items: it is full only if COUNT is a
 * power of two. */
int vec_double(void *list, size_t count, size_t size)
{
    size_t cap = count;
    return vec_reserve(list, &cap, count + 1, size);
}
