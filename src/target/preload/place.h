/* Getting in front of the program's allocator. */
#ifndef PIANO_TARGET_PRELOAD_PLACE_H
#define PIANO_TARGET_PRELOAD_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Cheap when nothing has to be done; safe to call again after more modules were loaded. Weak: programs that are
 * linked statically have no such thing. */
void piano__alloc_place(void) __attribute__((weak));
/* Whether the program has its allocator in its executable, where no hook reaches it. Weak like the first. */
bool piano__alloc_is_hidden(void) __attribute__((weak));
/* The program's malloc and free, hooked. */
void *piano__alloc_take(size_t size);
void piano__alloc_give(void *p);
/* Finds out about C++'s operators, if they are of the module that MALLOC_FUNCTION is in. REACHES_US runs a step and says
 * whether a call came to the hooks of malloc. */
void piano__operators_place(const void *malloc_function, bool (*reaches_us)(void (*step)(void)));

#endif
