/* Takes the samples. control.c starts and stops the recording.
 *
 * A SAMPLE. The block is allocated, and the program does not have its address yet. The stack is
 * walked and numbered, the sums are increased, the block is added to the live table and the filter,
 * and a new gap is drawn. None of this allocates or waits without a timeout. An allocation by a
 * signal handler that interrupts a sample is not sampled, but counted (`inside`). A free by such a
 * handler is tracked, since look-up and removal are safe anywhere. A handler that jumps out of the
 * sample ends it (`piano__heap_is_left`).
 *
 * A FREE. The block is removed before the allocator gets it back. So no other thread can get the
 * same address while the old block is still in the table.
 *
 * The gate (record/gate.h) says whether to sample. */
#include "target/heap/heap.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/heap/hidden.h"
#include "target/heap/rooms.h"
#include "target/heap/stacks.h"
#include "target/heap/sums.h"
#include "target/heap/pymalloc.h"
#include "target/python/frames.h"
#include "target/record/control.h"
#include "target/record/gate.h"
#include "target/sys/check.h"
#include "target/sys/clock.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"

enum {
    /* A thread that does not sample checks the gate again after this many allocated bytes. */
    LOOK_AGAIN = 16 << 10,
};

__thread struct piano__heap_self piano__heap_self;
bool piano__heap_always_watched;

static struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

static void set_left(struct piano__heap_self *self, uint64_t left)
{
    self->hidden = left;
    self->left = self->watched || piano__heap_always_watched ? 0 : left;
}

void piano__heap_renew(void)
{
    struct piano__heap_self *self = &piano__heap_self;
    self->session = __atomic_load_n(&piano__session, __ATOMIC_RELAXED);
    self->rate = 0;
    self->tid = 0;
    set_left(self, 0);
}

void piano__heap_redraw(void)
{
    piano__heap_self.rate = 0;
    set_left(&piano__heap_self, 0);
}

static void seed(struct piano__heap_self *self)
{
    static uint64_t serial;
    /* Relaxed: only the number must be unique. */
    uint64_t number = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
    uint64_t random = 0;
    int saved = errno;
    (void)syscall(SYS_getrandom, &random, sizeof random, 1 /* GRND_NONBLOCK */);
    self->tid = (uint32_t)syscall(SYS_gettid);
    piano__random_seed(&self->random, random ^ number << 32 ^ (uint64_t)self->tid << 48 ^
                                          (uint64_t)piano__monotonic_ns() ^ (uintptr_t)self);
    __atomic_fetch_add(&header()->stats.threads, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static void draw(struct piano__heap_self *self)
{
    /* Relaxed: a setting. The gate has published the tables. */
    self->rate = __atomic_load_n(&header()->rate, __ATOMIC_RELAXED);
    set_left(self, piano__poisson_gap(&self->random, self->rate));
}

bool piano__heap_is_own_now(void)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (self->own && piano__stack_is_left(&self->walker.stack, self->own, piano__stack_pointer()))
        self->own = 0;
    return self->own || self->ignored;
}

/* Returns whether a signal handler (for example for a stack overflow) has jumped out of the sample
 * that is marked as being taken. Then clears the mark. */
__attribute__((noinline)) bool piano__heap_is_left(struct piano__heap_self *self)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!piano__stack_is_left(&self->walker.stack, self->inside, here))
        return false;
    struct piano__walk *room = self->room;
    self->room = NULL;
    if (room)
        piano__rooms_give(room);
    self->inside = 0;
    return true;
}

/* This thread entered a hook before the hooks were taken out, and goes on after the recording was
 * taken away. The next recording is of the same session, and must not begin with the distance that
 * this thread keeps meanwhile. */
static void leave_session(struct piano__heap_self *self)
{
    if (__atomic_load_n(&piano__session_is_shared, __ATOMIC_RELAXED))
        self->session--;
}

/* Returns whether a block of BYTES is to be sampled, and counts it down. A thread draws its first
 * gap before the test. */
static bool is_due(struct piano__heap_self *self, uint64_t bytes)
{
    if (!piano__heap_is_current())
        piano__heap_renew();
    /* Includes what the hooks have counted down since. */
    if (self->left > 0)
        self->hidden = self->left;
    if (bytes < self->hidden) {
        set_left(self, self->hidden - bytes);
        return false;
    }
    if (!piano__gate_is_open(&piano__gate->sampling))
        piano__control_begin();
    if (!piano__gate_is_open(&piano__gate->sampling)) {
        self->rate = 0;
        set_left(self, LOOK_AGAIN);
        leave_session(self);
        return false;
    }
    if (piano__control_is_ended()) {
        piano__gate_set(&piano__gate->sampling, 0);
        __atomic_store_n(&header()->state, PIANO_REC_STOPPED, __ATOMIC_RELAXED);
        set_left(self, LOOK_AGAIN);
        return false;
    }
    if (self->inside && !piano__heap_is_left(self)) {
        __atomic_fetch_add(&header()->stats.dropped_busy, 1, __ATOMIC_RELAXED);
        return false;
    }
    if (self->rate != 0)
        return true;
    if (self->tid == 0)
        seed(self);
    draw(self);
    if (bytes >= self->hidden)
        return true;
    set_left(self, self->hidden - bytes);
    return false;
}

static void count_walk(const struct piano__walk *walk)
{
    struct piano__heap_stats *s = &header()->stats;
    __atomic_fetch_add(&s->walked, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->walked_frames, walk->depth, __ATOMIC_RELAXED);
    uint64_t least = __atomic_load_n(&s->walked_least, __ATOMIC_RELAXED);
    while ((least == 0 || walk->depth + 1 < least) &&
           !__atomic_compare_exchange_n(&s->walked_least, &least, walk->depth + 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    if (walk->flags & PIANO_STACK_LOST)
        __atomic_fetch_add(&s->walked_lost, 1, __ATOMIC_RELAXED);
    if (walk->flags & PIANO_STACK_FULL)
        __atomic_fetch_add(&s->walked_full, 1, __ATOMIC_RELAXED);
    if (walk->flags & PIANO_STACK_BY_FP)
        __atomic_fetch_add(&s->walked_by_fp, 1, __ATOMIC_RELAXED);
}

/* Adds the filter's counters since the last sample of this thread. */
static void add_filter_counts(struct piano__heap_self *self)
{
    struct piano__heap_stats *s = &header()->stats;
    __atomic_fetch_add(&s->filter_passes, self->passes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->filter_misses, self->misses, __ATOMIC_RELAXED);
    self->passes = self->misses = 0;
}

/* P was just allocated. If the table still has a block at P, its free was not seen. */
static void drop_stale(const void *p)
{
    struct piano__block old;
    if (!piano__filter_may_hold(p) || !piano__live_remove((uintptr_t)p, &old))
        return;
    __atomic_fetch_add(&header()->stats.stale, 1, __ATOMIC_RELAXED);
    piano__filter_remove(p);
    piano__sums_freed(header(), &old, (uint64_t)piano__monotonic_ns());
}

static void insert(const struct piano__block *block)
{
    const void *p = (const void *)(uintptr_t)block->address;
    piano__filter_add(p);
    int err = piano__live_insert(block);
    if (err == 0)
        return;
    struct piano__heap_stats *s = &header()->stats;
    piano__filter_remove(p);
    __atomic_fetch_add(err == -ENOSPC ? &s->dropped_live : &s->dropped_memory, 1, __ATOMIC_RELAXED);
    piano__sums_untracked(header(), block);
}

/* Returns the number of the current stack; 0 if it cannot be stored. */
static uint32_t stack_here(struct piano__heap_self *self, uint32_t flags)
{
    struct piano__walk *walk = piano__rooms_take();
    if (!walk) {
        __atomic_fetch_add(&header()->stats.dropped_stacks, 1, __ATOMIC_RELAXED);
        return 0;
    }
    self->room = walk;
    piano__walk_here(&self->walker, walk);
    walk->flags |= flags;
    count_walk(walk);
    piano__python_merge(walk, NULL);
    uint32_t stack = piano__stacks_intern(walk);
    self->room = NULL;
    piano__rooms_give(walk);
    return stack;
}

static __attribute__((noinline)) void sample(struct piano__heap_self *self, const void *p,
                                             size_t size, uint64_t rate, uint32_t flags)
{
    int saved = errno;
    self->inside = piano__stack_pointer();
    __asm__ __volatile__("" ::: "memory");
    struct piano__block block = {.address = (uintptr_t)p,
                                 .size = size,
                                 .rate = rate,
                                 .birth_ns = (uint64_t)piano__monotonic_ns(),
                                 .stack = stack_here(self, flags),
                                 .thread = self->tid};
    drop_stale(p);
    piano__sums_allocated(header(), &block);
    insert(&block);
    add_filter_counts(self);
    draw(self);
    piano__pymalloc_look();
    __asm__ __volatile__("" ::: "memory");
    self->inside = 0;
    errno = saved;
}

bool piano__heap_allocated(const void *p, size_t size, uint32_t flags)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (piano__heap_is_own())
        return false;
    uintptr_t before = piano__session_enter();
    bool due = is_due(self, piano__heap_size(size));
    if (due)
        sample(self, p, size, self->rate, flags);
    piano__session_leave(before);
    return due;
}

uint64_t piano__heap_due(size_t size)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (piano__heap_is_own())
        return 0;
    uintptr_t before = piano__session_enter();
    uint64_t rate = is_due(self, piano__heap_size(size)) ? self->rate : 0;
    if (rate)
        draw(self);
    piano__session_leave(before);
    return rate;
}

void piano__heap_sample(const void *p, size_t size, uint64_t rate)
{
    uintptr_t before = piano__session_enter();
    if (piano__gate_is_open(&piano__gate->sampling))
        sample(&piano__heap_self, p, size, rate, 0);
    piano__session_leave(before);
}

struct piano__look piano__heap_look(void)
{
    struct piano__heap_self *self = &piano__heap_self;
    struct piano__look look = {self->seen_count, self->watched != 0};
    self->looking++;
    piano__heap_watch(true);
    return look;
}

bool piano__heap_looked(struct piano__look look, const void *p)
{
    struct piano__heap_self *self = &piano__heap_self;
    uintptr_t at = (uintptr_t)p;
    bool found = false;
    for (uint32_t i = look.first; i < self->seen_count && !found; i++)
        found = at >= self->seen[i].from && at < self->seen[i].to;
    self->looking--;
    self->seen_count = look.first;
    piano__heap_watch(look.watched);
    return found;
}

static bool detach(const void *p, struct piano__block *block)
{
    if (!piano__gate_is_open(&piano__gate->following))
        return false;
    piano__heap_self.passes++;
    if (!piano__live_remove((uintptr_t)p, block)) {
        piano__heap_self.misses++;
        return false;
    }
    piano__filter_remove(p);
    return true;
}

bool piano__heap_detach(const void *p, struct piano__block *block)
{
    uintptr_t before = piano__session_enter();
    bool found = detach(p, block);
    piano__session_leave(before);
    return found;
}

/* The allocator ran since the block was detached, and the recording may be another one now. */
static bool is_of_recording(const struct piano__block *block)
{
    return piano__gate_is_open(&piano__gate->following) &&
           block->birth_ns >= header()->start_mono_ns;
}

void piano__heap_reattach(const struct piano__block *block)
{
    uintptr_t before = piano__session_enter();
    if (is_of_recording(block))
        insert(block);
    piano__session_leave(before);
}

void piano__heap_close(const struct piano__block *block)
{
    uintptr_t before = piano__session_enter();
    if (is_of_recording(block))
        piano__sums_freed(header(), block, (uint64_t)piano__monotonic_ns());
    piano__session_leave(before);
}

void piano__heap_freed(const void *p)
{
    struct piano__block block;
    if (piano__heap_detach(p, &block))
        piano__heap_close(&block);
}

void piano__heap_ignore(bool on)
{
    struct piano__heap_self *self = &piano__heap_self;
    self->ignored = on ? self->ignored + 1 : self->ignored - (self->ignored > 0);
    if (self->ignored > 0)
        return;
    /* Draws a new gap: the old one may have ended in ignored allocations. */
    self->rate = 0;
    set_left(self, 0);
}

void piano__heap_watch(bool on)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (!self->watched && !piano__heap_always_watched)
        self->hidden = self->left;
    self->watched = on ? UINTPTR_MAX : 0;
    set_left(self, self->hidden);
}

/* Makes the system calls of a first sample now. The program may later restrict its system calls,
 * and then be killed for one that it does not expect. Other threads still have to find their stack
 * bounds later. */
bool piano__heap_prepare(void)
{
    struct piano__heap_self *self = &piano__heap_self;
    piano__heap_renew();
    seed(self);
    struct piano__walk *walk = piano__rooms_take();
    if (!walk)
        return false;
    piano__walk_here(&self->walker, walk);
    bool ready = piano__live_prepare() && piano__stacks_prepare(walk);
    piano__rooms_give(walk);
    return ready;
}
