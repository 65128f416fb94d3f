/* The allocation family, in front of the program's own.
 *
 * These symbols come first in the lookup order of an instrumented program, so every call of every module
 * passes through here on its way to the next allocator in line: glibc's, or the jemalloc, mimalloc or tcmalloc
 * the program is linked with. An allocator that comes even before us (preloaded, or in the executable) is the
 * next in line too; then got.c leads the modules' calls here. Results, errno and failures are those of that allocator; what is added is a count
 * for the function on top of the span stack, after success only.
 *
 * Looking up the next allocator may itself allocate (dlsym does, in error paths): such calls are served from
 * a small arena that is never given back.
 *
 * A free has no size, so the allocator is asked (malloc_usable_size): freed bytes are what the block could
 * hold, allocated bytes what was asked for. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "target/heap/count.h"
#include "target/heap/usable.h"
#include "target/preload/got.h"
#include "target/preload/place.h"

#define EXPORT __attribute__((visibility("default")))

enum { ARENA = 32 * 1024 };

static _Alignas(16) char arena[ARENA];
static size_t arena_used;
static __thread int resolving __attribute__((tls_model("initial-exec")));

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
    size_t (*usable_size)(void *); /* NULL when it is of another allocator */
} next;

/* For `passes_on`. */
enum { WATCHING = 1 << 20 };
static bool reached;

static void *arena_take(size_t size)
{
    size_t need = (size + 31) & ~(size_t)15;
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

static void find(void *where, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

static __attribute__((noinline)) bool resolve(void)
{
    if (resolving)
        return false;
    resolving = 1;
    find(&next.free, "free");
    find(&next.calloc, "calloc");
    find(&next.realloc, "realloc");
    find(&next.posix_memalign, "posix_memalign");
    find(&next.aligned_alloc, "aligned_alloc");
    find(&next.memalign, "memalign");
    find(&next.valloc, "valloc");
    find(&next.pvalloc, "pvalloc");
    find(&next.malloc, "malloc"); /* last: it says that the others are there */
    if (next.malloc && piano__usable_is_of((void *)next.malloc))
        next.usable_size = malloc_usable_size;
    resolving = 0;
    return next.malloc != NULL;
}

static inline bool ready(void)
{
    return __builtin_expect(next.malloc != NULL, 1) || resolve();
}

/* Whether the malloc that stands before us passes its calls on to ours, as a debugging library does: then all is
 * well as it is. There is no way to know but to call it. */
static bool passes_on(void *(*first)(size_t), void (*first_free)(void *))
{
    piano__hooks_open += WATCHING;
    void *p = first(1);
    piano__hooks_open -= WATCHING;
    if (p && first_free)
        first_free(p);
    return reached;
}

struct redirection {
    const char *name;
    void *ours;
    void *next; /* points to a member of `next` */
};

/* Makes the allocator that stands before us the next in line, and leads the calls of all modules here. */
static void take_its_place(void)
{
    const struct redirection all[] = {
        {"malloc", (void *)malloc, &next.malloc},
        {"calloc", (void *)calloc, &next.calloc},
        {"realloc", (void *)realloc, &next.realloc},
        {"free", (void *)free, &next.free},
        {"posix_memalign", (void *)posix_memalign, &next.posix_memalign},
        {"aligned_alloc", (void *)aligned_alloc, &next.aligned_alloc},
        {"memalign", (void *)memalign, &next.memalign},
        {"valloc", (void *)valloc, &next.valloc},
        {"pvalloc", (void *)pvalloc, &next.pvalloc},
        {"reallocarray", (void *)reallocarray, NULL},
    };
    struct piano__redirect redirects[sizeof all / sizeof *all];
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *theirs = dlsym(RTLD_DEFAULT, all[i].name);
        if (!theirs || theirs == all[i].ours)
            continue;
        redirects[count++] = (struct piano__redirect){all[i].name, theirs, all[i].ours};
        if (all[i].next)
            memcpy(all[i].next, &theirs, sizeof theirs);
    }
    next.usable_size = piano__usable_is_of((void *)next.malloc) ? malloc_usable_size : NULL;
    piano__got_redirect(redirects, count);
}

/* Again after an instrumented library was loaded: its calls were bound past us as well. */
void piano__alloc_place(void)
{
    static enum { UNKNOWN, IN_LINE, PREEMPTED } place;
    if (!ready())
        return;
    if (place == UNKNOWN) {
        void *(*first)(size_t);
        void (*first_free)(void *);
        void *found = dlsym(RTLD_DEFAULT, "malloc");
        memcpy(&first, &found, sizeof found);
        found = dlsym(RTLD_DEFAULT, "free");
        memcpy(&first_free, &found, sizeof found);
        bool ours = first == malloc || passes_on(first, first_free);
        place = ours ? IN_LINE : PREEMPTED;
    }
    if (place == PREEMPTED)
        take_its_place();
}

__attribute__((constructor(101))) static void place_early(void)
{
    piano__alloc_place();
}

EXPORT void *malloc(size_t size)
{
    if (!ready())
        return arena_take(size);
    bool outermost = piano__hook_begin();
    if (__builtin_expect(!outermost && piano__hooks_open > WATCHING, 0))
        reached = true;
    return piano__hook_done(outermost, next.malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!ready())
        return __builtin_mul_overflow(count, size, &bytes) ? NULL : arena_take(bytes);
    bool outermost = piano__hook_begin();
    return piano__hook_done(outermost, next.calloc(count, size), count * size);
}

static inline size_t size_of(void *p)
{
    return next.usable_size ? next.usable_size(p) : 0;
}

static inline void count_freed(void *p)
{
    struct piano__thread *t = piano__self_thread();
    if (t->owner)
        piano__count_free(t, size_of(p));
}

EXPORT void free(void *p)
{
    if (!p || in_arena(p) || !ready())
        return;
    if (piano__hook_begin())
        count_freed(p);
    next.free(p);
    piano__hooks_open--;
}

static void *move_out_of_arena(void *p, size_t size)
{
    size_t old;
    memcpy(&old, (char *)p - 16, sizeof old);
    void *fresh = malloc(size);
    if (fresh)
        memcpy(fresh, p, old < size ? old : size);
    return fresh;
}

/* A realloc is a free of the old block and an allocation of the new one, when it succeeds. */
static void *resized(bool outermost, void *fresh, size_t old_size, bool had, size_t size)
{
    struct piano__thread *t = piano__self_thread();
    piano__hooks_open--;
    if (!outermost)
        return fresh;
    if (had && (fresh || size == 0))
        piano__count_free(t, old_size);
    if (fresh)
        piano__count_alloc(t, size);
    return fresh;
}

static size_t size_before(void *p)
{
    return p && piano__self_thread()->owner ? size_of(p) : 0;
}

EXPORT void *realloc(void *p, size_t size)
{
    if (!ready())
        return p ? NULL : arena_take(size);
    if (in_arena(p))
        return move_out_of_arena(p, size);
    bool outermost = piano__hook_begin();
    size_t old_size = outermost ? size_before(p) : 0;
    return resized(outermost, next.realloc(p, size), old_size, p != NULL, size);
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!ready() || !next.posix_memalign)
        return ENOMEM;
    bool outermost = piano__hook_begin();
    int err = next.posix_memalign(out, alignment, size);
    piano__hook_done(outermost, err == 0 ? *out : NULL, size);
    return err;
}

static void *no_such_function(void)
{
    errno = ENOMEM;
    return NULL;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    if (!ready() || !next.aligned_alloc)
        return no_such_function();
    bool outermost = piano__hook_begin();
    return piano__hook_done(outermost, next.aligned_alloc(alignment, size), size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    if (!ready() || !next.memalign)
        return no_such_function();
    bool outermost = piano__hook_begin();
    return piano__hook_done(outermost, next.memalign(alignment, size), size);
}

EXPORT void *valloc(size_t size)
{
    if (!ready() || !next.valloc)
        return no_such_function();
    bool outermost = piano__hook_begin();
    return piano__hook_done(outermost, next.valloc(size), size);
}

EXPORT void *pvalloc(size_t size)
{
    if (!ready() || !next.pvalloc)
        return no_such_function();
    bool outermost = piano__hook_begin();
    return piano__hook_done(outermost, next.pvalloc(size), size);
}
