/* Looks up functions. The dynamic linker may allocate an error message: that is piano's own. */
#include "target/preload/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "common/attach.h"
#include "target/heap/heap.h"

void piano__next_find(void *where, const char *name)
{
    uintptr_t own_before = piano__heap_own_begin();
    void *found = dlsym(RTLD_NEXT, name);
    piano__heap_own_end(own_before);
    memcpy(where, &found, sizeof found);
}

/* The tool passes the library as a descriptor (common/attach.h). */
bool piano__next_is_late(void)
{
    Dl_info info;
    return dladdr((void *)piano__next_is_late, &info) && info.dli_fname &&
           strncmp(info.dli_fname, PIANO_ATTACH_PATH, sizeof PIANO_ATTACH_PATH - 1) == 0;
}

/* Returns FOUND if it is defined in a module, which is then MAP. In a program that is not
 * position-independent, a function may have its address in a jump of the program. */
static bool is_defined(void *found, struct link_map **map)
{
    Dl_info info;
    void *symbol = NULL;
    *map = NULL;
    return found && dladdr1(found, &info, (void **)map, RTLD_DL_LINKMAP) && *map &&
           dladdr1(found, &info, &symbol, RTLD_DL_SYMENT) &&
           (!symbol || ((const ElfW(Sym) *)symbol)->st_shndx != SHN_UNDEF);
}

/* The libraries that the program was started with come first. */
enum { MOST_LIBRARIES = 64, MOST_PATH = 256 };
struct libraries {
    size_t count;
    char paths[MOST_LIBRARIES][MOST_PATH];
};

static int add_library(struct dl_phdr_info *info, size_t size, void *of)
{
    struct libraries *all = of;
    size_t len = strlen(info->dlpi_name);
    (void)size;
    if (len > 0 && len < MOST_PATH && all->count < MOST_LIBRARIES)
        memcpy(all->paths[all->count++], info->dlpi_name, len + 1);
    return 0;
}

/* Without the program itself, in the order of the lookup. The vdso cannot be opened. */
static void *find_in_libraries(const char *name)
{
    struct libraries all;
    void *result = NULL;
    all.count = 0;
    dl_iterate_phdr(add_library, &all);
    for (size_t i = 0; i < all.count && !result; i++) {
        struct link_map *of;
        void *handle = dlopen(all.paths[i], RTLD_LAZY | RTLD_NOLOAD);
        void *found = handle ? dlsym(handle, name) : NULL;
        result = is_defined(found, &of) && (void *)of == handle ? found : NULL;
        if (handle)
            dlclose(handle);
    }
    return result;
}

void *piano__next_used(const char *name)
{
    int saved = errno;
    uintptr_t own_before = piano__heap_own_begin();
    struct link_map *map;
    Dl_info ours, theirs;
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found && !is_defined(found, &map))
        found = find_in_libraries(name);
    if (found && dladdr(found, &theirs) && dladdr((void *)piano__next_used, &ours) &&
        theirs.dli_fbase == ours.dli_fbase)
        found = NULL; /* no other module has it */
    (void)dlerror();  /* do not leave an error message for the thread */
    piano__heap_own_end(own_before);
    errno = saved;
    return found;
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
