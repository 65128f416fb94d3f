/* CPython has three allocators: `raw` is malloc. `mem` and `obj` are pymalloc, which cuts blocks of up to 512 bytes out of
 * arenas from mmap, and asks malloc for all others. All three can be replaced, before the interpreter is set up as well
 * as later (then by one that calls the old one, as these do).
 *
 * NOTHING TWICE. A block that pymalloc had from malloc is seen there, too. Which blocks are is not known beforehand: size tells
 * nothing in a debug build, with PYTHONMALLOC=malloc, for a realloc of a block that once was large, or when no arena
 * could be had. It does not have to be known. Every block is counted down here, and those that come to malloc's hooks once more
 * there: a Poisson process has no memory, so a gap that had bytes taken off without ending in them is as good as a fresh one,
 * and malloc's hooks sample what they see as often as they should. Where the gap does end here, a new one is drawn, and
 * the block is a sample unless it is one that malloc's hooks see meanwhile: those had their own chance at it. So the usual
 * call is a subtraction and a jump. An arena itself is not counted, even where mappings are (`piano record --maps`): what
 * is in it is. Where all of a domain is malloc (PYTHONMALLOC=malloc) there is nothing to add, and no hook is put in.
 *
 * NO TEARING. The hooks are put in one word after another while other threads may be allocating. They have the context
 * that was there, and do not use it, so any mixture of the old functions and these does the right thing.
 *
 * FOR GOOD. PYTHONMALLOC=debug and -X dev have the interpreter replace what it finds when it begins. Others put themselves in
 * front, tracemalloc for one, and take themselves out by writing back what they found. A sample that finds others on top
 * asks the interpreter to call back when it suits it, and then hooks are put in again.
 *
 * NO CIRCLE. When hooks are not on top, nobody can tell whether they are beneath, or gone, without an allocation of his own. So those
 * that are put in again are another set, which calls what it found, for ever: a set that is still
 * beneath it has its own chance at every block, as malloc's hooks have. There are a few sets; after that, whoever is on top stays there. */
#include "target/python/allocators.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/heap/heap.h"
#include "target/sys/lock.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum domain { RAW = 0, MEM = 1, OBJ = 2, DOMAINS = 3 };
enum { SETS = 4 };

/* CPython's PyMemAllocatorEx and PyObjectArenaAllocator: part of its stable interface since 3.5 and 3.4. */
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
static int used[DOMAINS]; /* sets of them */
static bool is_attached;  /* has been once, whether there was a need for hooks or not */
static void *(*known_malloc)(void *, size_t);
static struct arenas next_arenas;

/* A call that did not pass: `rate` of the gap that ended in it, or 0. */
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

/* P of SIZE bytes is what came of it: a sample, unless it was seen on its way. */
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
    size_t all = count * size; /* where that is too much there will be no block */
    return likely(piano__heap_passes(all)) ? from->calloc(from->ctx, count, size)
                                           : zeroed_slowly(from, count, size, all);
}

static inline void give(const struct allocator *to, void *p)
{
    if (unlikely(piano__filter_may_hold(p)))
        piano__heap_freed(p);
    to->free(to->ctx, p);
}

/* As malloc's realloc, except that a size of 0 is not a free: NULL is a failure, and then the block stays. */
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

/* Hooks of their own for each set and domain: the context is not ours to use. */
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

/* Whether NOW is no other than the raw allocator, and that gives out malloc's blocks as they are. */
static bool is_malloc(const struct allocator *now)
{
    struct allocator raw;
    PyMem_GetAllocator(RAW, &raw);
    if (raw.malloc != now->malloc || raw.realloc != now->realloc || raw.ctx != now->ctx)
        return false;
    if (raw.malloc == known_malloc)
        return true; /* not tried again: this may be the child of a fork */
    uintptr_t own_before = piano__heap_own_begin(); /* the block is ours */
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

/* The interpreter takes smaller pieces in the same way, for the frames of its functions; those are no arenas. */
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
    if (next_arenas.alloc || !PyObject_GetArenaAllocator || !PyObject_SetArenaAllocator)
        return;
    PyObject_GetArenaAllocator(&now);
    next_arenas = now;
    now.alloc = alloc_arena;
    PyObject_SetArenaAllocator(&now);
}

/* The first time in any state of the interpreter. Later ones are for whoever may use it: others change the allocators too. */
void piano__python_attach(void)
{
    static uint32_t lock;
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
    piano__python_attach();
    return 0;
}

/* By the one who may use the interpreter: newer versions have a lock around the allocators, and another thread that holds it
 * would leave it locked in a child of a fork. */
void piano__python_look(void)
{
    static void *(*asked_for)(void *, size_t);
    struct allocator now;
    if (!is_attached || !Py_AddPendingCall || !may_use_python())
        return;
    PyMem_GetAllocator(OBJ, &now);
    if (is_ours(OBJ, &now) || now.malloc == __atomic_load_n(&asked_for, __ATOMIC_RELAXED))
        return;
    if (Py_AddPendingCall(attach_again, NULL) == 0)
        __atomic_store_n(&asked_for, now.malloc, __ATOMIC_RELAXED);
}
