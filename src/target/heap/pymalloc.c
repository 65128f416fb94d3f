/* CPython has three allocators. `raw` is malloc. `mem` and `obj` are pymalloc, which takes blocks
 * of up to 512 bytes from arenas (mmap) and all others from malloc. All three can be replaced,
 * before the interpreter is initialised and also later (then by one that calls the old one, as
 * these hooks do).
 *
 * NOTHING IS COUNTED TWICE. The malloc hooks also see a block that pymalloc takes from malloc.
 * Which blocks these are is not known in advance: the size does not tell in a debug build, with
 * PYTHONMALLOC=malloc, for a realloc of a block that once was large, or if no arena is available.
 * It need not be known. Every block is counted down here, and those that reach the malloc hooks are
 * counted down again there. A Poisson process has no memory: a gap from which bytes were subtracted
 * without ending it is as good as a new one. So the malloc hooks sample what they see at the right
 * rate. If the gap ends here, a new one is drawn, and the block becomes a sample unless the malloc
 * hooks see it meanwhile: they had their own chance to sample it. So the usual call is a
 * subtraction and a jump. An arena itself is not counted, even if mappings are (`piano record
 * --maps`), because the blocks in it are. If a whole domain is malloc (PYTHONMALLOC=malloc), no
 * hook is installed.
 *
 * NO TEARING. The hooks are installed one word after another while other threads may allocate. They
 * keep the previous context and do not use it. So any mixture of the old functions and the hooks
 * works.
 *
 * REINSTALLATION. With PYTHONMALLOC=debug and -X dev, the interpreter replaces the allocators when
 * it starts. Others install themselves on top, for example tracemalloc, and remove themselves by
 * restoring what they found. A sample that finds others on top asks the interpreter for a callback,
 * which installs hooks again.
 *
 * NO CYCLE. If our hooks are not on top, they may be below or gone. Finding out would need an
 * allocation. So a different set of hooks is installed each time, which always calls what it found.
 * A set that is still below has its own chance to sample every block, like the malloc hooks. There
 * are SETS sets. After that, hooks are not installed again. */
#include "target/heap/pymalloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/heap/heap.h"
#include "target/sys/lock.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum domain { RAW = 0, MEM = 1, OBJ = 2, DOMAINS = 3 };
enum { SETS = 4 };

/* CPython's PyMemAllocatorEx and PyObjectArenaAllocator: part of its stable interface since 3.5 and
 * 3.4. */
struct allocator {
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *p, size_t size);
    void (*free)(void *ctx, void *p);
};

struct arenas {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *p, size_t size);
};

/* NULL in a program that is not CPython. */
extern void PyMem_GetAllocator(int domain, struct allocator *out) __attribute__((weak));
extern void PyMem_SetAllocator(int domain, struct allocator *in) __attribute__((weak));
extern void PyObject_GetArenaAllocator(struct arenas *out) __attribute__((weak));
extern void PyObject_SetArenaAllocator(struct arenas *in) __attribute__((weak));
extern int Py_IsInitialized(void) __attribute__((weak));
extern int PyGILState_Check(void) __attribute__((weak));
extern int Py_AddPendingCall(int (*call)(void *), void *arg) __attribute__((weak));

static struct allocator next[SETS][DOMAINS];
static int used[DOMAINS]; /* number of sets used */
static bool is_attached;  /* was attached once, whether hooks were needed or not */
static void *(*known_malloc)(void *, size_t);
static struct arenas next_arenas;
static bool has_arenas; /* `alloc_arena` is installed */

/* Slow path: `rate` of the gap that ended in this call, or 0. */
struct asked {
    uint64_t rate;
    struct piano__look look;
};

static struct asked ask(size_t size)
{
    struct asked asked = {.rate = piano__heap_due(size)};
    if (asked.rate)
        asked.look = piano__heap_look();
    return asked;
}

/* Samples P of SIZE bytes, unless a nested hook already saw it. */
static void *answer(struct asked asked, void *p, size_t size)
{
    if (asked.rate && !piano__heap_looked(asked.look, p) && p)
        piano__heap_sample(p, size, asked.rate);
    if (p)
        piano__heap_note(p, size);
    return p;
}

static __attribute__((noinline, cold)) void *take_slowly(const struct allocator *from, size_t size)
{
    struct asked asked = ask(size);
    return answer(asked, from->malloc(from->ctx, size), size);
}

static inline void *take(const struct allocator *from, size_t size)
{
    return likely(piano__heap_passes(size)) ? from->malloc(from->ctx, size)
                                            : take_slowly(from, size);
}

static __attribute__((noinline, cold)) void *zeroed_slowly(const struct allocator *from,
                                                           size_t count, size_t size, size_t all)
{
    struct asked asked = ask(all);
    return answer(asked, from->calloc(from->ctx, count, size), all);
}

static inline void *take_zeroed(const struct allocator *from, size_t count, size_t size)
{
    /* If this overflows, the allocation fails. */
    size_t all = count * size;
    return likely(piano__heap_passes(all)) ? from->calloc(from->ctx, count, size)
                                           : zeroed_slowly(from, count, size, all);
}

static inline void give(const struct allocator *to, void *p)
{
    if (unlikely(piano__filter_may_hold(p)))
        piano__heap_freed(p);
    to->free(to->ctx, p);
}

/* Like realloc, except that a size of 0 does not free the block: NULL always means failure, and the
 * block stays. */
static __attribute__((noinline, cold)) void *resize_slowly(const struct allocator *from, void *p,
                                                           size_t size)
{
    struct piano__block old;
    bool sampled = piano__filter_may_hold(p) && piano__heap_detach(p, &old);
    struct asked asked = ask(size);
    void *fresh = from->realloc(from->ctx, p, size);
    if (sampled && !fresh)
        piano__heap_reattach(&old);
    else if (sampled)
        piano__heap_close(&old);
    return answer(asked, fresh, size);
}

static inline void *resize(const struct allocator *from, void *p, size_t size)
{
    if (likely(!piano__filter_may_hold(p)) && likely(piano__heap_passes(size)))
        return from->realloc(from->ctx, p, size);
    return resize_slowly(from, p, size);
}

/* Each set and domain has its own hooks, because the context cannot be used. */
#define HOOKS(name, set, domain)                                                                   \
    static void *name##_malloc(void *ctx, size_t size)                                             \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return take(&next[set][domain], size);                                                     \
    }                                                                                              \
    static void *name##_calloc(void *ctx, size_t count, size_t size)                               \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return take_zeroed(&next[set][domain], count, size);                                       \
    }                                                                                              \
    static void *name##_realloc(void *ctx, void *p, size_t size)                                   \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return resize(&next[set][domain], p, size);                                                \
    }                                                                                              \
    static void name##_free(void *ctx, void *p)                                                    \
    {                                                                                              \
        (void)ctx;                                                                                 \
        give(&next[set][domain], p);                                                               \
    }

#define EVERY_HOOK(X)                                                                              \
    X(mem_0, 0, MEM)                                                                               \
    X(obj_0, 0, OBJ)                                                                               \
    X(mem_1, 1, MEM)                                                                               \
    X(obj_1, 1, OBJ)                                                                               \
    X(mem_2, 2, MEM)                                                                               \
    X(obj_2, 2, OBJ)                                                                               \
    X(mem_3, 3, MEM)                                                                               \
    X(obj_3, 3, OBJ)
EVERY_HOOK(HOOKS)

#define ENTRY(name, set, domain)                                                                   \
    [set][domain] = {NULL, name##_malloc, name##_calloc, name##_realloc, name##_free},
static const struct allocator hooks[SETS][DOMAINS] = {EVERY_HOOK(ENTRY)};

static bool is_ours(int domain, const struct allocator *now)
{
    for (int set = 0; set < SETS; set++) {
        if (now->malloc == hooks[set][domain].malloc)
            return true;
    }
    return false;
}

static bool may_use_python(void)
{
    return Py_IsInitialized && PyGILState_Check && Py_IsInitialized() && PyGILState_Check();
}

/* Returns whether NOW is the raw allocator, and that returns malloc's blocks unchanged. */
static bool is_malloc(const struct allocator *now)
{
    struct allocator raw;
    PyMem_GetAllocator(RAW, &raw);
    if (raw.malloc != now->malloc || raw.realloc != now->realloc || raw.ctx != now->ctx)
        return false;
    if (raw.malloc == known_malloc)
        return true; /* not tried again: this may be a forked child */
    uintptr_t own_before = piano__heap_own_begin(); /* the block is piano's own */
    struct piano__look look = piano__heap_look();
    void *p = raw.malloc(raw.ctx, 1);
    bool seen = piano__heap_looked(look, p) && p;
    raw.free(raw.ctx, p);
    piano__heap_own_end(own_before);
    if (seen)
        known_malloc = raw.malloc;
    return seen;
}

static void attach(int domain)
{
    struct allocator now;
    PyMem_GetAllocator(domain, &now);
    if (is_ours(domain, &now) || used[domain] == SETS || is_malloc(&now))
        return;
    struct allocator ours = hooks[used[domain]][domain];
    ours.ctx = now.ctx;
    next[used[domain]++][domain] = now;
    PyMem_SetAllocator(domain, &ours);
}

/* The interpreter also takes smaller pieces this way, for the frames of its functions. Those are
 * not arenas. */
enum { LEAST_ARENA = 256 * 1024 };

static void *alloc_arena(void *ctx, size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (size < LEAST_ARENA)
        return next_arenas.alloc(ctx, size);
    uint64_t left = self->left;
    self->left = UINT64_MAX; /* passes, uncounted */
    void *p = next_arenas.alloc(ctx, size);
    self->left = left;
    return p;
}

static void attach_arenas(void)
{
    struct arenas now;
    if (has_arenas || !PyObject_GetArenaAllocator || !PyObject_SetArenaAllocator)
        return;
    PyObject_GetArenaAllocator(&now);
    if (now.alloc == alloc_arena)
        return;
    next_arenas = now;
    now.alloc = alloc_arena;
    PyObject_SetArenaAllocator(&now);
    has_arenas = true;
}

static void detach_arenas(void)
{
    struct arenas now;
    if (!has_arenas)
        return;
    PyObject_GetArenaAllocator(&now);
    if (now.alloc != alloc_arena)
        return;
    now = next_arenas;
    PyObject_SetArenaAllocator(&now);
    has_arenas = false;
}

/* A call that is in a hook now returns through it. The hook's context is that of the allocator
 * below, so that the two may be mixed. */
static void detach(int domain)
{
    struct allocator now;
    PyMem_GetAllocator(domain, &now);
    int set = used[domain] - 1;
    if (set < 0 || now.malloc != hooks[set][domain].malloc)
        return;
    struct allocator theirs = next[set][domain];
    PyMem_SetAllocator(domain, &theirs);
    used[domain] = set;
}

static uint32_t lock;

void piano__pymalloc_detach(void)
{
    if (!is_attached || !piano__lock_try(&lock))
        return;
    detach_arenas();
    detach(MEM);
    detach(OBJ);
    is_attached = false;
    piano__lock_release(&lock);
}

/* The first call works in any state of the interpreter. Later calls need the GIL, because others
 * may change the allocators too. */
void piano__pymalloc_attach(void)
{
    if (!PyMem_GetAllocator || !PyMem_SetAllocator || (is_attached && !may_use_python()) ||
        !piano__lock_try(&lock))
        return;
    if (piano__heap_wants_maps())
        attach_arenas();
    is_attached = true;
    attach(MEM);
    attach(OBJ);
    piano__lock_release(&lock);
}

static int attach_again(void *arg)
{
    (void)arg;
    if (piano__heap_header())
        piano__pymalloc_attach();
    return 0;
}

/* Only with the GIL: newer versions have a lock around the allocators. If a thread without the GIL
 * held it during a fork, it would stay locked in the child. */
void piano__pymalloc_look(void)
{
    static void *(*asked_for)(void *, size_t);
    struct allocator now;
    if (!is_attached || !Py_AddPendingCall || !may_use_python())
        return;
    PyMem_GetAllocator(OBJ, &now);
    /* Relaxed: the pointer is only compared. */
    if (is_ours(OBJ, &now) || now.malloc == __atomic_load_n(&asked_for, __ATOMIC_RELAXED))
        return;
    if (Py_AddPendingCall(attach_again, NULL) == 0)
        __atomic_store_n(&asked_for, now.malloc, __ATOMIC_RELAXED);
}
