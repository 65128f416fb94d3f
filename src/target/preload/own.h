/* An allocator in the executable. The program calls its functions directly, so no symbol of piano
 * comes before them: their entries are changed to jump to hooks. */
#ifndef PIANO_TARGET_PRELOAD_OWN_H
#define PIANO_TARGET_PRELOAD_OWN_H

#include <stdbool.h>

#include "target/heap/hooks.h"

/* Finds the allocator, and hooks it if that can be done safely. Only the first call does anything;
 * IS_PREEMPTED: another malloc comes before that of these hooks. Returns the same as
 * piano__alloc_own(). */
struct piano__own piano__own_place(bool is_preempted);
/* What the first call of piano__own_place() found. */
struct piano__own piano__own_found(void);

#endif
