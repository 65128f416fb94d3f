/* The tables of all modules are changed (got.c), those of the C library included, since its own
 * calls of malloc are the program's too. Functions that are waiting in a hook when the hooks are
 * taken out return through it later: the library stays loaded.
 *
 * A thread's distance to its next sample may come from an earlier recording. So its first
 * allocation in this one draws a new one. The hooks that are preloaded do without this test.
 *
 * Modules that are loaded later are changed when dlopen returns. The loader searches libraries for
 * its caller, so the hook must not become the caller where that matters. In these cases, and for
 * modules that the C library loads itself, the thread of attach.c looks a few times a second. */
#include "target/preload/late.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "target/heap/heap.h"
#include "target/preload/next.h"
#include "target/sys/lock.h"

enum { MOST = 64, TRIES = 200 };

/* The hooks in alloc.c. */
void *piano__late_next_malloc(size_t);
void *piano__late_next_calloc(size_t, size_t);
void *piano__late_next_realloc(void *, size_t);
void *piano__late_next_reallocarray(void *, size_t, size_t);
int piano__late_next_posix_memalign(void **, size_t, size_t);
void *piano__late_next_aligned_alloc(size_t, size_t);
void *piano__late_next_memalign(size_t, size_t);
void *piano__late_next_valloc(size_t);
void *piano__late_next_pvalloc(size_t);

static struct {
    uint32_t lock;
    bool is_placed;
    struct piano__redirect all[MOST];
    size_t count;
    const void *c_library;      /* an address in it */
    unsigned long long modules; /* loaded and unloaded, when last looked at */
    void *(*dlopen)(const char *, int);
} late;

/* The first allocation of a thread in a recording ------------------------------------------------ */

static inline void renew(void)
{
    if (!piano__heap_is_current())
        piano__heap_renew();
}

static void *late_malloc(size_t size)
{
    renew();
    return piano__late_next_malloc(size);
}

static void *late_calloc(size_t count, size_t size)
{
    renew();
    return piano__late_next_calloc(count, size);
}

static void *late_realloc(void *p, size_t size)
{
    renew();
    return piano__late_next_realloc(p, size);
}

static void *late_reallocarray(void *p, size_t count, size_t size)
{
    renew();
    return piano__late_next_reallocarray(p, count, size);
}

static int late_posix_memalign(void **out, size_t alignment, size_t size)
{
    renew();
    return piano__late_next_posix_memalign(out, alignment, size);
}

static void *late_aligned_alloc(size_t alignment, size_t size)
{
    renew();
    return piano__late_next_aligned_alloc(alignment, size);
}

static void *late_memalign(size_t alignment, size_t size)
{
    renew();
    return piano__late_next_memalign(alignment, size);
}

static void *late_valloc(size_t size)
{
    renew();
    return piano__late_next_valloc(size);
}

static void *late_pvalloc(size_t size)
{
    renew();
    return piano__late_next_pvalloc(size);
}

static const struct {
    const char *name;
    void *to;
} allocations[] = {
    {"malloc", (void *)late_malloc},
    {"calloc", (void *)late_calloc},
    {"realloc", (void *)late_realloc},
    {"reallocarray", (void *)late_reallocarray},
    {"posix_memalign", (void *)late_posix_memalign},
    {"aligned_alloc", (void *)late_aligned_alloc},
    {"memalign", (void *)late_memalign},
    {"valloc", (void *)late_valloc},
    {"pvalloc", (void *)late_pvalloc},
};

/* Loading -------------------------------------------------------------------------------------- */

static int read_count(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    *(unsigned long long *)count = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

static void look_locked(void)
{
    unsigned long long now = 0;
    dl_iterate_phdr(read_count, &now);
    if (!late.is_placed || now == late.modules)
        return;
    late.modules = now;
    piano__got_redirect_late(late.all, late.count, late.c_library, false);
}

void piano__late_look(void)
{
    if (!piano__lock_try(&late.lock))
        return;
    look_locked();
    piano__lock_release(&late.lock);
}

/* Does the module of CALLER name directories to search for libraries? */
static bool has_own_search(const void *caller)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return true;
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_RUNPATH || d->d_tag == DT_RPATH)
            return true;
    return false;
}

static void *late_dlopen(const char *file, int mode)
{
    bool is_plain = file && !strchr(file, '$') &&
                    (strchr(file, '/') || !has_own_search(__builtin_return_address(0)));
    if (!is_plain)
        return late.dlopen(file, mode);
    void *handle = late.dlopen(file, mode);
    if (handle)
        piano__late_look();
    return handle;
}

/* Placing -------------------------------------------------------------------------------------- */

static void add(const char *name, void *from, void *to)
{
    if (from && late.count < MOST)
        late.all[late.count++] = (struct piano__redirect){name, from, to};
}

static void add_heap(void)
{
    struct piano__redirect redirects[PIANO_ALLOC_CALLS];
    size_t count = piano__alloc_redirects(redirects, piano__next_used);
    for (size_t i = 0; i < count; i++) {
        void *to = redirects[i].to;
        for (size_t n = 0; n < sizeof allocations / sizeof *allocations; n++)
            to = strcmp(redirects[i].name, allocations[n].name) == 0 ? allocations[n].to : to;
        add(redirects[i].name, redirects[i].from, to);
    }
    if (count > 0)
        piano__operators_each(redirects[0].from, add);
}

#define ADD(name) add(#name, piano__next_used(#name), (void *)(name))

static void add_maps(void)
{
    ADD(mmap);
    ADD(mmap64);
    ADD(munmap);
    ADD(mremap);
}

/* Some functions have an old version on x86-64, which RTLD_DEFAULT may find. Callers of the current
 * version are bound to its own address. */
static void add_wait(const char *name, void *hook)
{
    void *found = NULL;
#if defined(__x86_64__)
    if (strncmp(name, "pthread_cond_", 13) == 0)
        found = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.3.2");
    (void)dlerror();
#endif
    add(name, found ? found : piano__next_used(name), hook);
}

void piano__late_forked(void)
{
    late.lock = 0;
}

static bool lock(void)
{
    bool locked = false;
    for (int i = 0; i < TRIES && !locked; i++)
        locked = piano__lock_try(&late.lock);
    return locked;
}

unsigned piano__late_place(const struct piano__late_wish *wish)
{
    unsigned changed = 0;
    if (!lock())
        return 0;
    late.count = 0;
    late.c_library = piano__next_used("__libc_start_main");
    late.dlopen = (void *(*)(const char *, int))piano__next_used("dlopen");
    if (wish->heap)
        add_heap();
    if (wish->maps)
        add_maps();
    if (wish->events)
        piano__park_each(add_wait);
    add("dlopen", (void *)late.dlopen, (void *)late_dlopen);
    ADD(dlclose);
    if (late.c_library && late.dlopen) {
        dl_iterate_phdr(read_count, &late.modules);
        changed = piano__got_redirect_late(late.all, late.count, late.c_library, false);
        late.is_placed = true;
    }
    piano__lock_release(&late.lock);
    return changed;
}

/* Twice: a thread that binds a function at its first call may have stored the old address again. */
bool piano__late_remove(void)
{
    if (!lock())
        return false;
    late.is_placed = false;
    piano__got_redirect_late(late.all, late.count, late.c_library, true);
    piano__got_redirect_late(late.all, late.count, late.c_library, true);
    piano__lock_release(&late.lock);
    return true;
}
