/* The hooked allocator, for C++'s operators. */
#ifndef PIANO_TARGET_PRELOAD_PLACE_H
#define PIANO_TARGET_PRELOAD_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* The program's malloc and free, hooked. */
void *piano__alloc_take(size_t size);
void piano__alloc_give(void *p);
/* Returns the usable size of the block; 0 if the allocator cannot be asked. */
size_t piano__alloc_size(void *p);
/* Checks C++'s operators, if they are in the module of MALLOC_FUNCTION. REACHES_US runs a step and
 * returns whether a call reached the malloc hooks. */
void piano__operators_place(const void *malloc_function, bool (*reaches_us)(void (*step)(void)));

#endif
