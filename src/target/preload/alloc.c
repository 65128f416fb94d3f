/* The allocation functions, interposed before the program's own.
 *
 * These symbols come first in the program's lookup order. So every call of every module passes
 * through here on its way to the next allocator: glibc's, or the jemalloc, mimalloc or tcmalloc
 * that the program is linked with. An allocator that comes even before these (preloaded, or in the
 * executable) also becomes the next one; then got.c redirects the modules' calls here. Results,
 * errno and failures are those of that allocator.
 *
 * Almost every call takes the fast path: it counts the block down (heap/heap.h) and calls the
 * allocator, as a jump. The slow path (`long_*`) is for blocks that are sampled, and for all calls
 * of a thread whose allocations are counted for instrumented functions. A free takes it if the
 * filter says that the block may be a sampled one.
 *
 * A free has no size, so the allocator is asked (malloc_usable_size). So the freed bytes of a
 * function are what its blocks could hold, and the allocated bytes are what it requested. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "target/span/count.h"
#include "target/heap/heap.h"
#include "target/heap/hooks.h"
#include "target/preload/first.h"
#include "target/preload/got.h"
#include "target/preload/own.h"
#include "target/preload/late.h"
#include "target/preload/next.h"
#include "target/preload/place.h"
#include "target/record/control.h"
#include "target/span/usable.h"

#define EXPORT __attribute__((visibility("default")))

/* For reaches_us(). */
enum { WATCHING = 1 << 20 };
static bool reached;

/* Runs STEP with this thread's calls on the slow path, and returns whether one came from inside it.
 * Runs it once before that, because an allocator may call anything while it sets itself up. */
static bool reaches_us(void (*step)(void))
{
    step();
    bool was_watched = piano__heap_self.watched;
    piano__heap_watch(true);
    reached = false;
    piano__hooks_open += WATCHING;
    step();
    piano__hooks_open -= WATCHING;
    piano__heap_watch(was_watched);
    return reached;
}

static void call_first_malloc(void)
{
    void *(*first)(size_t);
    void (*its_free)(void *);
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    memcpy(&first, &found, sizeof found);
    found = dlsym(RTLD_DEFAULT, "free");
    memcpy(&its_free, &found, sizeof found);
    void *p = first(1);
    if (p && its_free)
        its_free(p);
}

/* An allocator may call its own functions by name, for example malloc from calloc. Those calls
 * reach the hooks again. */
static void call_every_kind(void)
{
    void *p = NULL;
    next.free(next.realloc(next.calloc(1, 1), 2));
    if (next.posix_memalign(&p, 64, 1) == 0)
        next.free(p);
    next.free(next.aligned_alloc(64, 64));
    next.free(next.memalign(64, 1));
}

struct redirection {
    const char *name;
    void *ours;
    void *next; /* points to a member of `next` */
};

size_t piano__alloc_redirects(struct piano__redirect redirects[PIANO_ALLOC_CALLS],
                              void *(*find_theirs)(const char *))
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
    _Static_assert(sizeof all / sizeof *all == PIANO_ALLOC_CALLS, "room for all of them");
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *theirs = find_theirs(all[i].name);
        if (!theirs || theirs == all[i].ours)
            continue;
        redirects[count++] = (struct piano__redirect){all[i].name, theirs, all[i].ours};
        if (all[i].next)
            memcpy(all[i].next, &theirs, sizeof theirs);
    }
    next.usable_size = piano__usable_is_of((void *)next.malloc) ? malloc_usable_size : NULL;
    return count;
}

static void *find_first(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void take_its_place(void)
{
    struct piano__redirect redirects[PIANO_ALLOC_CALLS];
    size_t count = piano__alloc_redirects(redirects, find_first);
    piano__got_redirect(redirects, count);
}

/* Returns whether calls of malloc reach these hooks by their symbols. */
static bool is_in_line(void)
{
    static enum { UNKNOWN, IN_LINE, PREEMPTED } place;
    if (place == UNKNOWN) {
        bool ours =
            dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc || reaches_us(call_first_malloc);
        place = ours ? IN_LINE : PREEMPTED;
    }
    return place == IN_LINE;
}

struct piano__own piano__alloc_own(void)
{
    if (!ready())
        return piano__own_found();
    uintptr_t own_before = piano__heap_own_begin();
    struct piano__own own = piano__own_place(!is_in_line());
    piano__heap_own_end(own_before);
    return own;
}

static void place(void)
{
    if (!ready())
        return;
    uintptr_t own_before = piano__heap_own_begin();
    if (!is_in_line() && !piano__count_is_hooked)
        take_its_place();
    piano__operators_place((void *)next.malloc, reaches_us);
    piano__heap_own_end(own_before);
}

/* Called again after an instrumented library was loaded: its calls may be bound to another
 * allocator as well. */
void piano__alloc_place(void)
{
    (void)piano__alloc_own();
    place();
}

__attribute__((constructor(101))) static void place_early(void)
{
    if (piano__next_is_late() && ready())
        return; /* redirects nothing until a recording begins: late.c */
    if (piano__control_is_for_us() && piano__control_number("PIANO_HEAP") > 0)
        (void)piano__alloc_own();
    place();
    uintptr_t own_before = piano__heap_own_begin();
    piano__heap_always_watched = reaches_us(call_every_kind);
    piano__hooks_nest = piano__heap_always_watched || piano__own_found().state == PIANO_OWN_SEEN;
    piano__heap_own_end(own_before);
}

/* Slow path. Call begin() before the allocator and done() after it. Both allow for an allocator
 * that calls itself. */
static bool begin(void)
{
    bool outermost = piano__hook_begin();
    if (unlikely(!outermost && piano__hooks_open > WATCHING))
        reached = true;
    return outermost;
}

/* Returns whether this call may become a sample: not if it comes from inside an allocator that calls
 * itself by these hooks. Inside the hooks of own_hooks.c it may. */
static bool is_sampled(bool outermost)
{
    return outermost || !piano__heap_always_watched;
}

static void *done(bool outermost, void *p, size_t size)
{
    piano__hook_done(outermost && !piano__heap_is_own(), p, size);
    if (p && is_sampled(outermost) && !piano__heap_passes_hidden(size))
        piano__heap_allocated(p, size, 0);
    if (p)
        piano__heap_note(p, size);
    return p;
}

static __attribute__((noinline)) void *long_malloc(size_t size)
{
    bool outermost = begin();
    return done(outermost, next.malloc(size), size);
}

EXPORT void *malloc(size_t size)
{
    return likely(piano__heap_passes(size)) ? next.malloc(size) : long_malloc(size);
}

static __attribute__((noinline)) void *long_calloc(size_t count, size_t size)
{
    bool outermost = begin();
    return done(outermost, next.calloc(count, size), count * size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    bool passes = !__builtin_mul_overflow(count, size, &bytes) && piano__heap_passes(bytes);
    return likely(passes) ? next.calloc(count, size) : long_calloc(count, size);
}

static inline size_t size_of(void *p)
{
    return next.usable_size ? next.usable_size(p) : 0;
}

static __attribute__((noinline)) void long_free(void *p)
{
    if (!p || in_arena(p))
        return;
    bool outermost = begin();
    if (piano__filter_may_hold(p))
        piano__heap_freed(p);
    struct piano__thread *t = piano__self_thread();
    if (outermost && t->owner && !piano__heap_is_own())
        piano__count_free(t, size_of(p));
    next.free(p);
    piano__hooks_open--;
}

EXPORT void free(void *p)
{
    if (likely(piano__heap_free_passes(p)))
        next.free(p);
    else
        long_free(p);
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

/* A successful realloc is a free of the old block and an allocation of the new one. */
static void *resized(bool outermost, void *fresh, size_t old_size, bool had, size_t size)
{
    struct piano__thread *t = piano__self_thread();
    piano__hooks_open--;
    if (!is_sampled(outermost))
        return fresh;
    bool is_counted = outermost && !piano__heap_is_own();
    if (is_counted && had && (fresh || size == 0))
        piano__count_free(t, old_size);
    if (fresh) {
        if (is_counted)
            piano__count_alloc(t, size);
        if (!piano__heap_passes_hidden(size))
            piano__heap_allocated(fresh, size, 0);
        piano__heap_note(fresh, size);
    }
    return fresh;
}

static size_t size_before(void *p)
{
    return p && piano__self_thread()->owner ? size_of(p) : 0;
}

/* The block is removed from the live table before the allocator may give its address to another
 * thread. It is put back if the realloc fails. */
static __attribute__((noinline)) void *long_realloc(void *p, size_t size)
{
    if (in_arena(p))
        return move_out_of_arena(p, size);
    bool outermost = begin();
    size_t old_size = outermost ? size_before(p) : 0;
    struct piano__block old;
    bool sampled = piano__filter_may_hold(p) && piano__heap_detach(p, &old);
    void *fresh = next.realloc(p, size);
    if (sampled && !fresh && size != 0)
        piano__heap_reattach(&old);
    else if (sampled)
        piano__heap_close(&old);
    return resized(outermost, fresh, old_size, p != NULL, size);
}

EXPORT void *realloc(void *p, size_t size)
{
    bool passes = !piano__filter_may_hold(p) && piano__heap_passes(size);
    return likely(passes) ? next.realloc(p, size) : long_realloc(p, size);
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

static __attribute__((noinline)) int long_posix_memalign(void **out, size_t alignment, size_t size)
{
    bool outermost = begin();
    int err = next.posix_memalign(out, alignment, size);
    done(outermost, err == 0 ? *out : NULL, size);
    return err;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    return likely(piano__heap_passes(size)) ? next.posix_memalign(out, alignment, size)
                                            : long_posix_memalign(out, alignment, size);
}

static __attribute__((noinline)) void *long_aligned(void *(*allocate)(size_t, size_t),
                                                    size_t alignment, size_t size)
{
    bool outermost = begin();
    return done(outermost, allocate(alignment, size), size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return likely(piano__heap_passes(size)) ? next.aligned_alloc(alignment, size)
                                            : long_aligned(next.aligned_alloc, alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return likely(piano__heap_passes(size)) ? next.memalign(alignment, size)
                                            : long_aligned(next.memalign, alignment, size);
}

static __attribute__((noinline)) void *long_valloc(void *(*allocate)(size_t), size_t size)
{
    bool outermost = begin();
    return done(outermost, allocate(size), size);
}

EXPORT void *valloc(size_t size)
{
    return likely(piano__heap_passes(size)) ? next.valloc(size) : long_valloc(next.valloc, size);
}

EXPORT void *pvalloc(size_t size)
{
    return likely(piano__heap_passes(size)) ? next.pvalloc(size) : long_valloc(next.pvalloc, size);
}

#define ALIAS(name) __attribute__((alias(#name), copy(name), visibility("hidden")))
void *piano__late_next_malloc(size_t) ALIAS(malloc);
void *piano__late_next_calloc(size_t, size_t) ALIAS(calloc);
void *piano__late_next_realloc(void *, size_t) ALIAS(realloc);
void *piano__late_next_reallocarray(void *, size_t, size_t) ALIAS(reallocarray);
int piano__late_next_posix_memalign(void **, size_t, size_t) ALIAS(posix_memalign);
void *piano__late_next_aligned_alloc(size_t, size_t) ALIAS(aligned_alloc);
void *piano__late_next_memalign(size_t, size_t) ALIAS(memalign);
void *piano__late_next_valloc(size_t) ALIAS(valloc);
void *piano__late_next_pvalloc(size_t) ALIAS(pvalloc);

void *piano__alloc_take(size_t size)
{
    return malloc(size);
}

void piano__alloc_give(void *p)
{
    free(p);
}

size_t piano__alloc_size(void *p)
{
    return size_of(p);
}
