/* Hooks for the functions of an allocator in the executable. */
#ifndef PIANO_TARGET_PRELOAD_OWN_HOOKS_H
#define PIANO_TARGET_PRELOAD_OWN_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function does: common/allocators.h. */
enum piano__own_what {
    PIANO_OWN_TAKE,
    PIANO_OWN_TAKE_MANY,
    PIANO_OWN_TAKE_IN,
    PIANO_OWN_TAKE_MANY_IN,
    PIANO_OWN_TAKE_AT,
    PIANO_OWN_RESIZE,
    PIANO_OWN_RESIZE_MANY,
    PIANO_OWN_RESIZE_IN,
    PIANO_OWN_RESIZE_THERE,
    PIANO_OWN_DROP,
    PIANO_OWN_MEASURE,
    PIANO_OWN_WHATS
};

struct piano__own_hook {
    uintptr_t address;
    uintptr_t *next; /* the function that the hook calls */
};

/* Returns a hook that is not used yet, or address 0 if there is none. MEASURE is the allocator's
 * function that returns the size of a block, or 0. */
struct piano__own_hook piano__own_hook_take(enum piano__own_what what, uintptr_t measure);

#endif
