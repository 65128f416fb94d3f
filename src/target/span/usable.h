/* Checks whether malloc_usable_size belongs to the same allocator as a malloc. */
#ifndef PIANO_TARGET_SPAN_USABLE_H
#define PIANO_TARGET_SPAN_USABLE_H

#include <stdbool.h>
#include <stddef.h>

bool piano__usable_is_of(void *malloc_function);

/* For preload/wrap.c, which is linked into the program. */
void __piano_count_alloc(unsigned long bytes) __attribute__((visibility("default")));
void __piano_count_free(unsigned long bytes) __attribute__((visibility("default")));
/* Returns the usable size of the block; 0 if the allocator of MALLOC_FUNCTION cannot be asked. */
size_t __piano_usable_size(void *p, void *malloc_function) __attribute__((visibility("default")));

#endif
