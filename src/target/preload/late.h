/* Hooks for a process that runs already (`piano record --pid`): they are put in place when a
 * recording begins, and taken out when it ends. */
#ifndef PIANO_TARGET_PRELOAD_LATE_H
#define PIANO_TARGET_PRELOAD_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/preload/got.h"

enum { PIANO_ALLOC_CALLS = 10 };

/* Makes the allocator that FIND_THEIRS finds the next one (alloc.c). Returns the number of
 * REDIRECTS, which lead its calls to the hooks. */
size_t piano__alloc_redirects(struct piano__redirect redirects[PIANO_ALLOC_CALLS],
                              void *(*find_theirs)(const char *));

/* Passes every hook of a call that waits to TAKE (park.c). */
void piano__park_each(void (*take)(const char *name, void *hook));

/* Passes C++'s operators to TAKE, if they are in the module of MALLOC_FUNCTION (operators.c). */
void piano__operators_each(const void *malloc_function,
                           void (*take)(const char *name, void *from, void *hook));

struct piano__late_wish {
    bool heap, maps, events;
};

/* Redirects the calls of all modules. Returns how many; 0 also if another thread is at it. */
unsigned piano__late_place(const struct piano__late_wish *wish);
/* The same for modules that were loaded since. Cheap if there are none. */
void piano__late_look(void);
/* Call it first in a forked child: the thread that held a lock may not exist here. */
void piano__late_forked(void);
/* Takes the hooks out. Returns false if that was not possible in time. */
bool piano__late_remove(void);

#endif
