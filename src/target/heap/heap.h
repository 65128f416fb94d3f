/* Samples the program's allocations. The hooks (preload/alloc.c) handle the common case: `left` is
 * larger than the block, and the filter does not match. Everything else is here.
 *
 * `left` is 0 while all calls of a thread have to take the slow path: at its start, and while its
 * allocations are counted for instrumented functions (span/count.h). */
#ifndef PIANO_TARGET_HEAP_HEAP_H
#define PIANO_TARGET_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/heap/filter.h"
#include "target/heap/live.h"
#include "target/heap/poisson.h"
#include "target/record/session.h"
#include "target/unwind/walk.h"

enum { PIANO_MOST_SEEN = 8 };

struct piano__heap_self {
    uint64_t left;     /* bytes until the next sample, as used by the hooks */
    uint64_t hidden;   /* the same, while `watched` keeps `left` at 0 */
    uintptr_t watched; /* all ones: every call takes the slow path */
    uint32_t looking;  /* open calls of `piano__heap_look` */
    uint32_t seen_count;
    struct piano__seen {
        uintptr_t from, to;
    } seen[PIANO_MOST_SEEN]; /* blocks seen during `piano__heap_look` */
    /* The next two are stack pointers of the functions that set them, else 0. A longjmp may leave
     * them set, so `piano__heap_is_own` and `piano__heap_is_left` check them. */
    uintptr_t own;            /* piano itself runs: what libc allocates for it is not sampled */
    uintptr_t inside;         /* a sample is being taken */
    struct piano__walk *room; /* buffer of that sample */
    uint32_t ignored;         /* nesting depth of `piano__heap_ignore` */
    uint64_t rate;            /* rate of the current gap; 0 if not sampling */
    uint64_t passes;          /* filter counters that are not yet in the statistics */
    uint64_t misses;
    uint32_t tid;     /* 0 before the first sample */
    uint32_t session; /* that `left`, `rate` and `tid` belong to (record/session.h) */
    struct piano__random random;
    struct piano__walker walker;
};

extern __thread struct piano__heap_self piano__heap_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The allocator calls its own functions by name. Every call takes the slow path, or it would be
 * counted twice. */
extern bool piano__heap_always_watched;

/* Until `piano__heap_own_end`, allocations of this thread are piano's own. May be nested. */
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

/* Returns whether allocations of this thread are not the program's. */
bool piano__heap_is_own_now(void);
static inline bool piano__heap_is_own(void)
{
    return __builtin_expect(piano__heap_self.own || piano__heap_self.ignored, 0) &&
           piano__heap_is_own_now();
}

/* A block of 0 bytes still is one object. */
static inline uint64_t piano__heap_size(size_t size)
{
    return size ? size : 1;
}

/* Fast path: counts a block of SIZE down. Returns false if it needs more than that. */
static inline bool piano__heap_passes(size_t size)
{
    uint64_t left = piano__heap_self.left;
    uint64_t bytes = piano__heap_size(size);
    if (__builtin_expect(bytes >= left, 0))
        return false;
    piano__heap_self.left = left - bytes;
    return true;
}

/* The same on the slow path, for a thread whose `left` is kept at 0: counts `hidden` down. */
static inline bool piano__heap_passes_hidden(size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    uint64_t bytes = piano__heap_size(size);
    if (self->left != 0 || bytes >= self->hidden)
        return false;
    self->hidden -= bytes;
    return true;
}

/* Fast path: returns whether a free of P can be ignored. */
static inline bool piano__heap_free_passes(const void *p)
{
    return !piano__filter_may_hold_or(p, piano__heap_self.watched);
}

/* Slow path: records P for an open `piano__heap_look`. */
static inline void piano__heap_note(const void *p, size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (__builtin_expect(self->looking && self->seen_count < PIANO_MOST_SEEN, 0))
        self->seen[self->seen_count++] = (struct piano__seen){(uintptr_t)p, (uintptr_t)p + size};
}

/* Slow path for SIZE bytes at P, just allocated. FLAGS for its stack: 0 or PIANO_STACK_MMAP.
 * Returns true if P became a sample. */
bool piano__heap_allocated(const void *p, size_t size, uint32_t flags);
/* The two halves of `piano__heap_allocated`, for an allocator that may be built on another one
 * whose blocks the hooks see. Call `piano__heap_due` before the allocator: it counts SIZE down and
 * draws the next gap if one ends. It returns the rate of the gap that ended, or 0. Then take the
 * sample. */
uint64_t piano__heap_due(size_t size);
void piano__heap_sample(const void *p, size_t size, uint64_t rate);
/* Records which blocks the hooks see between these two calls. All calls of this thread take the
 * slow path meanwhile. Only the first few blocks are recorded: what an allocator requests in
 * addition to the block comes after it. May be nested. */
struct piano__look {
    uint32_t first;
    bool watched;
};
struct piano__look piano__heap_look(void);
/* Ends the recording, and returns whether P is in one of these blocks. */
bool piano__heap_looked(struct piano__look look, const void *p);
/* P is about to be freed, and the filter matches it. */
void piano__heap_freed(const void *p);
/* The two halves of `piano__heap_freed`, for realloc, which may fail: remove the block from the
 * table, then put it back or count it as freed. */
bool piano__heap_detach(const void *p, struct piano__block *block);
void piano__heap_reattach(const struct piano__block *block);
void piano__heap_close(const struct piano__block *block);

/* Another recording has begun since this thread's last sample: draws a new gap. */
void piano__heap_renew(void);
static inline bool piano__heap_is_current(void)
{
    /* Relaxed: see piano__session_next(). */
    return __builtin_expect(
        piano__heap_self.session == __atomic_load_n(&piano__session, __ATOMIC_RELAXED), 1);
}

/* Starts or ends ignoring allocations of this thread. Frees are still tracked. May be nested. */
void piano__heap_ignore(bool on);

/* Makes all calls of this thread take the slow path, or not any more. */
void piano__heap_watch(bool on);

/* For control.c: makes the system calls of a first sample now. Returns false without memory. */
bool piano__heap_prepare(void);
/* The calling thread draws a new gap at its next allocation. */
void piano__heap_redraw(void);
/* Returns whether a signal handler left the sample in SELF by a jump. */
bool piano__heap_is_left(struct piano__heap_self *self);

/* Control the recording. Return 0 or a negative errno. RATE 0 means the current rate. */
int piano__heap_start(uint64_t rate);
int piano__heap_stop(void);
int piano__heap_shutdown(void);
int piano__heap_snapshot(void);
/* Returns the header of the recording, or NULL if there is none. */
const struct piano__rec_header *piano__heap_header(void);
/* Frees the tables, in a forked child, if the recording could not be started, or if it is taken
 * away. Returns true if it did not, because a signal handler forked in the middle of a sample. */
bool piano__heap_forget(void);
/* Returns whether anonymous mappings are recorded too. */
bool piano__heap_wants_maps(void);

#endif
