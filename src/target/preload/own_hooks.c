/* Hooks for the functions of an allocator in the executable, whose entries jump here (own.c).
 *
 * The usual call takes the fast path, as in alloc.c: it counts the block down, or finds that a block
 * is not sampled, and jumps to the function.
 *
 * NOTHING IS COUNTED TWICE, although the functions of an allocator may call each other, and the C
 * library's malloc: it is done as in heap/pymalloc.c. Every hook counts a block down. If the gap ends
 * in an outer call, the block becomes a sample unless an inner hook sees it meanwhile. For the
 * counts of instrumented functions, only the outermost hook of a thread counts.
 *
 * A CALL MAY BE LEFT: operators of C++ throw, and signal handlers jump. The next slow call of the
 * thread finds that out by its stack pointer, and restores what the call had changed.
 *
 * Arguments are passed on in as many registers as any of the functions has parameters. */
#include "target/preload/own_hooks.h"

#include "target/heap/heap.h"
#include "target/span/count.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

typedef uintptr_t word;
typedef word hooked(word a, word b, word c, word d, word e);

struct slot {
    hooked *next;
    size_t (*measure)(void *p, int flags); /* NULL: there is none */
};

/* Before the outermost slow call of this thread. */
struct outside {
    uintptr_t at; /* stack pointer of that call; 0: there is none */
    int hooks_open;
    uint32_t looking, seen_count;
    bool watched;
};
static __thread struct outside outside __attribute__((tls_model("initial-exec")));

/* One slow call. */
struct call {
    bool is_outermost; /* counts for instrumented functions */
    bool is_first;     /* sets `outside` */
    int hooks_open;
    uint64_t rate; /* of the gap that ended in this call, or 0 */
    struct piano__look look;
};

static __attribute__((noinline)) void restore_left(uintptr_t here)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (!piano__stack_is_left(&self->walker.stack, outside.at, here))
        return;
    outside.at = 0;
    piano__hooks_open = outside.hooks_open;
    self->looking = outside.looking;
    self->seen_count = outside.seen_count;
    piano__heap_watch(outside.watched);
}

static inline __attribute__((always_inline)) struct call enter(void)
{
    uintptr_t here = piano__stack_pointer();
    if (unlikely(outside.at))
        restore_left(here);
    const struct piano__heap_self *self = &piano__heap_self;
    struct call call = {.is_first = outside.at == 0, .hooks_open = piano__hooks_open};
    if (call.is_first)
        outside = (struct outside){here, piano__hooks_open, self->looking, self->seen_count,
                                   self->watched != 0};
    call.is_outermost = piano__hook_begin();
    return call;
}

static inline void leave(const struct call *call)
{
    piano__hooks_open = call->hooks_open;
    if (call->is_first)
        outside.at = 0;
}

/* Before the function. */
static inline void ask(struct call *call, size_t size)
{
    if (!piano__heap_passes_hidden(size))
        call->rate = piano__heap_due(size);
    if (call->rate)
        call->look = piano__heap_look();
}

/* After it: P of SIZE bytes is the program's, unless it is NULL. */
static inline void answer(struct call *call, const void *p, size_t size)
{
    bool is_seen = call->rate && piano__heap_looked(call->look, p);
    leave(call);
    if (!p)
        return;
    if (call->is_outermost && !piano__heap_is_own())
        piano__count_alloc(piano__self_thread(), size);
    if (call->rate && !is_seen)
        piano__heap_sample(p, size, call->rate);
    piano__heap_note(p, size);
}

static inline size_t size_of(const struct slot *slot, word p)
{
    bool is_wanted = p && slot->measure && piano__self_thread()->owner;
    return is_wanted ? slot->measure((void *)p, 0) : 0;
}

static void count_free(const struct call *call, size_t size)
{
    if (call->is_outermost && !piano__heap_is_own())
        piano__count_free(piano__self_thread(), size);
}

/* ---- slow paths ---- */

#define ALL word a, word b, word c, word d, word e
#define PASSED a, b, c, d, e

static __attribute__((noinline)) word slow_take(const struct slot *slot, size_t size, ALL)
{
    struct call call = enter();
    ask(&call, size);
    word p = slot->next(PASSED);
    answer(&call, (const void *)p, size);
    return p;
}

/* posix_memalign: returns 0 if it has stored the block. */
static __attribute__((noinline)) word slow_take_at(const struct slot *slot, size_t size, ALL)
{
    struct call call = enter();
    ask(&call, size);
    word err = slot->next(PASSED);
    answer(&call, (int)err == 0 ? *(void **)a : NULL, size);
    return err;
}

/* A sampled block is removed before the allocator may give its address to another thread. It is put
 * back if the call fails. */
static __attribute__((noinline)) word slow_resize(const struct slot *slot, word p, size_t size, ALL)
{
    struct piano__block old;
    struct call call = enter();
    size_t before = size_of(slot, p);
    bool is_sampled = piano__filter_may_hold((void *)p) && piano__heap_detach((void *)p, &old);
    ask(&call, size);
    word fresh = slot->next(PASSED);
    bool is_gone = p && (fresh || size == 0);
    if (is_sampled && !is_gone)
        piano__heap_reattach(&old);
    else if (is_sampled)
        piano__heap_close(&old);
    if (is_gone)
        count_free(&call, before);
    answer(&call, (const void *)fresh, size);
    return fresh;
}

/* xallocx: the block stays where it is, and has at least SIZE bytes if it could be resized. */
static __attribute__((noinline)) word slow_resize_there(const struct slot *slot, word p,
                                                        size_t size, ALL)
{
    struct piano__block old;
    struct call call = enter();
    size_t before = size_of(slot, p);
    bool is_sampled = piano__filter_may_hold((void *)p) && piano__heap_detach((void *)p, &old);
    ask(&call, size);
    word now = slot->next(PASSED);
    bool is_done = now >= size;
    if (is_sampled && !is_done)
        piano__heap_reattach(&old);
    else if (is_sampled)
        piano__heap_close(&old);
    if (is_done)
        count_free(&call, before);
    answer(&call, is_done ? (const void *)p : NULL, size);
    return now;
}

static __attribute__((noinline)) word slow_drop(const struct slot *slot, ALL)
{
    struct call call = enter();
    if (piano__filter_may_hold((void *)a))
        piano__heap_freed((void *)a);
    if (a)
        count_free(&call, size_of(slot, a));
    word result = slot->next(PASSED);
    leave(&call);
    return result;
}

/* ---- hooks ---- */

/* An allocation of so many bytes fails. */
static inline size_t product(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

#define TAKES(what, slow, bytes, i)                                                                \
    static word what##_##i(ALL)                                                                    \
    {                                                                                              \
        size_t size = bytes;                                                                       \
        return likely(piano__heap_passes(size)) ? what##_slots[i].next(PASSED)                     \
                                                : slow(&what##_slots[i], size, PASSED);            \
    }
#define RESIZES(what, slow, block, bytes, i)                                                       \
    static word what##_##i(ALL)                                                                    \
    {                                                                                              \
        size_t size = bytes;                                                                       \
        bool passes = !piano__filter_may_hold((void *)(block)) && piano__heap_passes(size);        \
        return likely(passes) ? what##_slots[i].next(PASSED)                                       \
                              : slow(&what##_slots[i], block, size, PASSED);                       \
    }

#define TAKE(i) TAKES(take, slow_take, a, i)
#define TAKE_MANY(i) TAKES(take_many, slow_take, product(a, b), i)
#define TAKE_IN(i) TAKES(take_in, slow_take, b, i)
#define TAKE_MANY_IN(i) TAKES(take_many_in, slow_take, product(b, c), i)
#define TAKE_AT(i) TAKES(take_at, slow_take_at, c, i)
#define RESIZE(i) RESIZES(resize, slow_resize, a, b, i)
#define RESIZE_MANY(i) RESIZES(resize_many, slow_resize, a, product(b, c), i)
#define RESIZE_IN(i) RESIZES(resize_in, slow_resize, b, c, i)
#define RESIZE_THERE(i) RESIZES(resize_there, slow_resize_there, a, b, i)
#define DROP(i)                                                                                    \
    static word drop_##i(ALL)                                                                      \
    {                                                                                              \
        return likely(piano__heap_free_passes((void *)a)) ? drop_slots[i].next(PASSED)             \
                                                          : slow_drop(&drop_slots[i], PASSED);     \
    }

#define FROM(X, t, u) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) u
#define TIMES_2(X) X(0) X(1)
#define TIMES_8(X) FROM(X, , )
#define TIMES_10(X) FROM(X, , X(8) X(9))
#define TIMES_20(X) TIMES_10(X) FROM(X, 1, X(18) X(19))
#define TIMES_30(X) TIMES_20(X) FROM(X, 2, X(28) X(29))
#define TIMES_50(X) TIMES_30(X) FROM(X, 3, X(38) X(39)) FROM(X, 4, X(48) X(49))

/* X(what, number of hooks, their definition) */
#define EVERY(X)                                                                                   \
    X(take, TAKE, 50)                                                                              \
    X(take_many, TAKE_MANY, 20)                                                                    \
    X(take_in, TAKE_IN, 20)                                                                        \
    X(take_many_in, TAKE_MANY_IN, 8)                                                               \
    X(take_at, TAKE_AT, 8)                                                                         \
    X(resize, RESIZE, 20)                                                                          \
    X(resize_many, RESIZE_MANY, 8)                                                                 \
    X(resize_in, RESIZE_IN, 8)                                                                     \
    X(resize_there, RESIZE_THERE, 2)                                                               \
    X(drop, DROP, 50)

#define DEFINE(name, WHAT, count)                                                                  \
    static struct slot name##_slots[count];                                                        \
    TIMES_##count(WHAT)
EVERY(DEFINE)

#define take_HOOK(i) take_##i,
#define take_many_HOOK(i) take_many_##i,
#define take_in_HOOK(i) take_in_##i,
#define take_many_in_HOOK(i) take_many_in_##i,
#define take_at_HOOK(i) take_at_##i,
#define resize_HOOK(i) resize_##i,
#define resize_many_HOOK(i) resize_many_##i,
#define resize_in_HOOK(i) resize_in_##i,
#define resize_there_HOOK(i) resize_there_##i,
#define drop_HOOK(i) drop_##i,

#define LIST(name, WHAT, count)                                                                    \
    static hooked *const name##_hooks[count] = {TIMES_##count(name##_HOOK)};
EVERY(LIST)

static struct {
    struct slot *slots;
    hooked *const *hooks;
    size_t count, used;
} sets[PIANO_OWN_WHATS] = {
#define SET(name, WHAT, count) [PIANO_OWN_##WHAT] = {name##_slots, name##_hooks, count, 0},
    EVERY(SET)};

struct piano__own_hook piano__own_hook_take(enum piano__own_what what, uintptr_t measure)
{
    if (sets[what].used == sets[what].count)
        return (struct piano__own_hook){0, NULL};
    size_t i = sets[what].used++;
    struct slot *slot = &sets[what].slots[i];
    slot->measure = (size_t(*)(void *, int))measure;
    return (struct piano__own_hook){(uintptr_t)sets[what].hooks[i], (uintptr_t *)&slot->next};
}
