/* Looks up functions. The dynamic linker may allocate an error message: that is piano's own. */
#include "target/preload/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "target/heap/heap.h"

void piano__next_find(void *where, const char *name)
{
    uintptr_t own_before = piano__heap_own_begin();
    void *found = dlsym(RTLD_NEXT, name);
    piano__heap_own_end(own_before);
    memcpy(where, &found, sizeof found);
}

void *piano__next_of(const char *library, const char *name)
{
    int saved = errno;
    uintptr_t own_before = piano__heap_own_begin();
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD); /* never closed */
    void *found = dlsym(RTLD_NEXT, name);
    if (!found && handle)
        found = dlsym(handle, name);
    (void)dlerror(); /* do not leave an error message for the program */
    piano__heap_own_end(own_before);
    errno = saved;
    return found;
}
