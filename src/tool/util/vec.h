/* Arrays that grow: a pointer and a count in any struct, and mostly a capacity. */
#ifndef PIANO_TOOL_UTIL_VEC_H
#define PIANO_TOOL_UTIL_VEC_H

#include <stddef.h>

/* All return 0 or -ENOMEM; on error nothing changes. LIST, COUNT and CAP are variables. */

/* Room for one more item. */
#define VEC_ROOM(list, count, cap)                                                                 \
    ((count) < (cap) ? 0 : vec_reserve(&(list), &(cap), (count) + 1, sizeof(*(list))))

/* The same for an array without a stored capacity, which must be allocated by this alone. */
#define VEC_DOUBLE(list, count)                                                                    \
    ((count) & ((count)-1) ? 0 : vec_double(&(list), count, sizeof(*(list))))

/* Room for COUNT items of SIZE bytes in all. LIST points to the pointer to the array. */
int vec_reserve(void *list, size_t *cap, size_t count, size_t size);
int vec_double(void *list, size_t count, size_t size);

#endif
