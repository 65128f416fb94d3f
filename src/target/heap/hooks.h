/* What the rooms below ask of the allocation hooks. preload/alloc.c defines these functions.
 * Statically linked programs do not have them, so the symbols are weak: test them before a call. */
#ifndef PIANO_TARGET_HEAP_HOOKS_H
#define PIANO_TARGET_HEAP_HOOKS_H

#include <stdbool.h>

/* Interposes the hooks before the program's allocator. Cheap if nothing has to be done. May be
 * called again after more modules were loaded. */
void piano__alloc_place(void) __attribute__((weak));
/* Returns whether the program's allocator is in its executable, where hooks cannot see its
 * calls. */
bool piano__alloc_is_hidden(void) __attribute__((weak));

#endif
