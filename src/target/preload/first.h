/* The next allocator, and what serves the calls until it is known. Part of alloc.c, which alone
 * includes it.
 *
 * The first call looks up the next allocator, which may itself allocate (dlsym does, in error
 * paths). Such calls are served from a small arena that is never freed. */
#ifndef PIANO_TARGET_PRELOAD_FIRST_H
#define PIANO_TARGET_PRELOAD_FIRST_H

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "target/heap/filter.h"
#include "target/heap/heap.h"
#include "target/span/usable.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum { ARENA = 32 * 1024 };

static _Alignas(4096) char arena[ARENA];
static size_t arena_used;
static __thread int resolving __attribute__((tls_model("initial-exec")));

static void *first_malloc(size_t size);
static void *first_calloc(size_t count, size_t size);
static void *first_realloc(void *p, size_t size);
static void first_free(void *p);
static int first_posix_memalign(void **out, size_t alignment, size_t size);
static void *first_aligned(size_t alignment, size_t size);
static void *first_valloc(size_t size);

/* The next allocator. The first call of any of them looks up all of them. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable_size)(void *); /* NULL if it belongs to another allocator */
} next = {first_malloc,  first_calloc,  first_realloc, first_free,   first_posix_memalign,
          first_aligned, first_aligned, first_valloc,  first_valloc, NULL};

static void *arena_take(size_t size)
{
    size_t need = (size + 31) & ~(size_t)15;
    /* Relaxed: each caller gets its own part. */
    size_t at = __atomic_fetch_add(&arena_used, need, __ATOMIC_RELAXED);
    if (need < size || at + need > ARENA) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(arena + at, &size, sizeof size); /* for realloc out of the arena */
    return arena + at + 16;
}

static bool in_arena(const void *p)
{
    return (const char *)p >= arena && (const char *)p < arena + ARENA;
}

/* Makes frees of blocks in the arena take the slow path. */
static void mark_arena(void)
{
    for (const char *at = arena; at < arena + ARENA; at += 1 << PIANO_FILTER_SHIFT)
        piano__filter_fill(at);
}

static void *no_aligned(size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    errno = ENOMEM;
    return NULL;
}

static int no_posix_memalign(void **out, size_t alignment, size_t size)
{
    (void)out;
    (void)alignment;
    (void)size;
    return ENOMEM;
}

static void *no_valloc(size_t size)
{
    return no_aligned(0, size);
}

static void find(void *where, const char *name, const void *otherwise)
{
    const void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        found = otherwise;
    memcpy(where, &found, sizeof found);
}

static __attribute__((noinline)) bool resolve(void)
{
    if (resolving)
        return false;
    resolving = 1;
    uintptr_t own_before = piano__heap_own_begin();
    piano__filter_begin();
    mark_arena();
    find(&next.free, "free", (void *)first_free);
    find(&next.calloc, "calloc", (void *)first_calloc);
    find(&next.realloc, "realloc", (void *)first_realloc);
    find(&next.posix_memalign, "posix_memalign", (void *)no_posix_memalign);
    find(&next.aligned_alloc, "aligned_alloc", (void *)no_aligned);
    find(&next.memalign, "memalign", (void *)no_aligned);
    find(&next.valloc, "valloc", (void *)no_valloc);
    find(&next.pvalloc, "pvalloc", (void *)no_valloc);
    void *(*found)(size_t);
    find(&found, "malloc", (void *)first_malloc);
    /* Last: it implies that the others are set. Pairs with the acquire in ready(). */
    __atomic_store_n(&next.malloc, found, __ATOMIC_RELEASE);
    if (next.malloc != first_malloc && piano__usable_is_of((void *)next.malloc))
        next.usable_size = malloc_usable_size;
    piano__heap_own_end(own_before);
    resolving = 0;
    return next.malloc != first_malloc;
}

static bool ready(void)
{
    /* Pairs with the release in resolve(). */
    return likely(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != first_malloc) || resolve();
}

static void *first_malloc(size_t size)
{
    return ready() ? next.malloc(size) : arena_take(size);
}

static void *first_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (ready() && next.calloc != first_calloc)
        return next.calloc(count, size);
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : arena_take(bytes);
}

static void *first_realloc(void *p, size_t size)
{
    if (ready() && next.realloc != first_realloc)
        return next.realloc(p, size);
    return p ? NULL : arena_take(size);
}

static void first_free(void *p)
{
    if (p && ready() && next.free != first_free)
        next.free(p);
}

static int first_posix_memalign(void **out, size_t alignment, size_t size)
{
    return ready() ? next.posix_memalign(out, alignment, size) : ENOMEM;
}

static void *first_aligned(size_t alignment, size_t size)
{
    /* Uses memalign. aligned_alloc only refuses other arguments, which does not matter before the
     * program runs. */
    return ready() ? next.memalign(alignment, size) : no_aligned(alignment, size);
}

static void *first_valloc(size_t size)
{
    return ready() ? next.valloc(size) : no_aligned(0, size);
}

#endif
