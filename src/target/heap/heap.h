/* Sampling the program's allocations. The hooks (preload/alloc.c) do the common case by themselves: `left` is larger than
 * the block, and the filter says no. Everything else is here.
 *
 * A thread's `left` is 0 when all its calls have to come here: at its beginning, and while its allocations are counted
 * for instrumented functions (heap/count.h). */
#ifndef PIANO_TARGET_HEAP_HEAP_H
#define PIANO_TARGET_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/heap/filter.h"
#include "target/heap/live.h"
#include "target/heap/poisson.h"
#include "target/unwind/walk.h"

enum { PIANO_MOST_SEEN = 8 };

struct piano__heap_self {
    uint64_t left;     /* bytes until the next sample, as the hooks see it */
    uint64_t hidden;   /* the same, while `watched` keeps `left` at 0 */
    uintptr_t watched; /* all ones: every call has to come the long way */
    uint32_t looking;  /* calls of `piano__heap_look` that are open */
    uint32_t seen_count;
    struct piano__seen {
        uintptr_t from, to;
    } seen[PIANO_MOST_SEEN]; /* blocks, while somebody looks */
    /* Stack pointers of the functions that hold them, else 0: a jump may leave them set (see `piano__heap_is_own`). */
    uintptr_t own; /* piano itself is at work: what it makes libc allocate is not the program's */
    uintptr_t inside;         /* a sample is being taken */
    struct piano__walk *room; /* of that sample */
    uint32_t ignored;         /* `piano__heap_ignore`: how often it is on */
    uint64_t rate;            /* that the gap was drawn with; 0 when not sampling */
    uint64_t passes;          /* of the filter, and misses, not yet added to the statistics */
    uint64_t misses;
    uint32_t tid; /* 0 until the first sample */
    struct piano__random random;
    struct piano__walker walker;
};

extern __thread struct piano__heap_self piano__heap_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The allocator calls itself by name: every call has to come the long way, or it would be counted twice. */
extern bool piano__heap_always_watched;

/* Until `piano__heap_own_end`, what this thread allocates is piano's. May be nested. */
static inline __attribute__((always_inline)) uintptr_t piano__heap_own_begin(void)
{
    uintptr_t before = piano__heap_self.own;
    if (!before)
        piano__heap_self.own = piano__stack_pointer();
    __asm__ __volatile__("" ::: "memory");
    return before;
}

static inline void piano__heap_own_end(uintptr_t before)
{
    __asm__ __volatile__("" ::: "memory");
    piano__heap_self.own = before;
}

/* Whether what this thread allocates is not the program's. */
bool piano__heap_is_own_now(void);
static inline bool piano__heap_is_own(void)
{
    return __builtin_expect(piano__heap_self.own || piano__heap_self.ignored, 0) &&
           piano__heap_is_own_now();
}

/* A block of no bytes is one object all the same. */
static inline uint64_t piano__heap_size(size_t size)
{
    return size ? size : 1;
}

/* Whether a block of SIZE needs nothing but to be counted down, which is then done. */
static inline bool piano__heap_passes(size_t size)
{
    uint64_t left = piano__heap_self.left;
    uint64_t bytes = piano__heap_size(size);
    if (__builtin_expect(bytes >= left, 0))
        return false;
    piano__heap_self.left = left - bytes;
    return true;
}

/* The same on the long way: a thread whose `left` is kept at 0 counts down `hidden`. */
static inline bool piano__heap_passes_hidden(size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    uint64_t bytes = piano__heap_size(size);
    if (self->left != 0 || bytes >= self->hidden)
        return false;
    self->hidden -= bytes;
    return true;
}

/* Whether a free of P needs nothing of piano. */
static inline bool piano__heap_free_passes(const void *p)
{
    return !piano__filter_may_hold_or(p, piano__heap_self.watched);
}

/* P has come the long way: whoever looks is told. */
static inline void piano__heap_note(const void *p, size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (__builtin_expect(self->looking && self->seen_count < PIANO_MOST_SEEN, 0))
        self->seen[self->seen_count++] = (struct piano__seen){(uintptr_t)p, (uintptr_t)p + size};
}

/* SIZE bytes at P, just allocated, that did not pass. FLAGS of its stack: 0 or PIANO_STACK_MMAP. True
 * when it became a sample. */
bool piano__heap_allocated(const void *p, size_t size, uint32_t flags);
/* The two halves of that, for an allocator that may be built upon another one whose blocks are seen: before it is called, counts
 * SIZE down and, where a gap ends in that, draws the next; the rate of the one that ended, or 0. Then the sample. */
uint64_t piano__heap_due(size_t size);
void piano__heap_sample(const void *p, size_t size, uint64_t rate);
/* In between: which blocks the hooks see. All calls of this thread come the long way meanwhile. The first few are remembered: what
 * an allocator asks for beside the block comes after it. May be nested. */
struct piano__look {
    uint32_t first;
    bool watched;
};
struct piano__look piano__heap_look(void);
/* Ends that; whether P lies in one of them. */
bool piano__heap_looked(struct piano__look look, const void *p);
/* P is about to be freed, and the filter may hold it. */
void piano__heap_freed(const void *p);
/* The two halves of that for realloc, which may fail: takes the block out, and puts it back or closes it. */
bool piano__heap_detach(const void *p, struct piano__block *block);
void piano__heap_reattach(const struct piano__block *block);
void piano__heap_close(const struct piano__block *block);

/* What this thread allocates is not the program's, or again; frees are followed. May be nested. */
void piano__heap_ignore(bool on);

/* All calls of this thread have to come here, or no longer. */
void piano__heap_watch(bool on);

/* The life of a recording; 0 or negative errno. RATE 0 means the rate it has. */
int piano__heap_start(uint64_t rate);
int piano__heap_stop(void);
int piano__heap_shutdown(void);
int piano__heap_snapshot(void);
/* What the recording says, or NULL when there is none. */
const struct piano__rec_header *piano__heap_header(void);
/* In a forked child, or when it could not be begun: lets go of the tables. */
bool piano__heap_forget(void);
/* Anonymous mappings are wanted too. */
bool piano__heap_wants_maps(void);

#endif
