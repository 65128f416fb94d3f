/* What guards call, as functions that do nothing: for procedural macros and build scripts that contain
 * instrumented crates of the project. They run in the compiler, where the runtime must not be. */
#include <stddef.h>

#include "common/probe.h"

void __piano_count_alloc(size_t);
void __piano_count_free(size_t);
void __piano_counts_allocator(void);

/* `limit` is 0: every guard calls __piano_enter. Threads write the same owner: none. */
static struct __piano_thread everyone;

__thread struct __piano_thread *__piano_self = &everyone;
__thread struct __piano_thread *__piano_self_then = &everyone;

void __piano_register(struct __piano_unit *unit)
{
    (void)unit;
}

void __piano_unregister(struct __piano_unit *unit)
{
    (void)unit;
}

void *__piano_enter(unsigned offset)
{
    (void)offset;
    return NULL;
}

void __piano_exit(void *kept)
{
    (void)kept;
}

void __piano_land(void *guard, unsigned offset)
{
    (void)guard;
    (void)offset;
}

void __piano_count_alloc(size_t bytes)
{
    (void)bytes;
}

void __piano_count_free(size_t bytes)
{
    (void)bytes;
}

void __piano_counts_allocator(void)
{
}
