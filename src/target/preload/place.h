/* Getting in front of the program's allocator. */
#ifndef PIANO_TARGET_PRELOAD_PLACE_H
#define PIANO_TARGET_PRELOAD_PLACE_H

/* Cheap when nothing has to be done; safe to call again after more modules were loaded. Weak: programs that are
 * linked statically have no such thing. */
void piano__alloc_place(void) __attribute__((weak));
/* The same for C++'s operators, if they are of the module that MALLOC_FUNCTION is in. */
void piano__operators_place(const void *malloc_function);

#endif
