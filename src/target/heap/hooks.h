/* What the rooms below ask of the allocation hooks. preload/alloc.c defines these functions.
 * Statically linked programs do not have them, so the symbols are weak: test them before a call. */
#ifndef PIANO_TARGET_HEAP_HOOKS_H
#define PIANO_TARGET_HEAP_HOOKS_H

#include <stdbool.h>

#include "common/allocators.h"

/* An allocator in the executable. */
struct piano__own {
    enum piano__own_state state;
    enum piano__own_kind kind;
    enum piano__own_reason reason; /* if it is hidden */
    bool is_uncounted;             /* it is hidden for instrumented functions, too */
};

/* Interposes the hooks before the program's allocator. Cheap if nothing has to be done. May be
 * called again after more modules were loaded. */
void piano__alloc_place(void) __attribute__((weak));
/* Returns whether the hooks see the calls of the allocator in the program's executable, if it has
 * one. The first call may change the entries of its functions. */
struct piano__own piano__alloc_own(void) __attribute__((weak));

#endif
