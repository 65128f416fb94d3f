/* Finds the next functions of the same names in the lookup order, usually the C library's. */
#ifndef PIANO_TARGET_PRELOAD_NEXT_H
#define PIANO_TARGET_PRELOAD_NEXT_H

#include <stdbool.h>

/* Stores the address in WHERE, a pointer to a function pointer; NULL if there is none. The dynamic
 * linker then keeps an error message for dlerror(). */
void piano__next_find(void *where, const char *name);

/* Was this library loaded into a running process by `piano record --pid`? Its symbols are then not
 * in the lookup order of the others. */
bool piano__next_is_late(void);
/* In such a process: returns the function that the program's calls of NAME reach, or NULL. */
void *piano__next_used(const char *name);

/* Finds the function in LIBRARY. That may have been loaded as a dependency of a library loaded with
 * dlopen; then it is not in the lookup order. The library stays loaded from now on, since its
 * functions are cached. Returns NULL if there is none. */
void *piano__next_of(const char *library, const char *name);

#endif
