/* The functions of the same names that come next in line: the C library's, as a rule. */
#ifndef PIANO_TARGET_PRELOAD_NEXT_H
#define PIANO_TARGET_PRELOAD_NEXT_H

#include <dlfcn.h>
#include <string.h>

/* Into WHERE, a pointer to a function; NULL when there is none. */
static inline void piano__next_find(void *where, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

/* The one of LIBRARY, which may be there for the sake of a library that was loaded for itself: then it is not among those that come next.
 * It stays from now on, since its functions are remembered. NULL when it has none. */
void *piano__next_of(const char *library, const char *name);

#endif
