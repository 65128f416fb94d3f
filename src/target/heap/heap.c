/* The sampler at work, and the life of its recording.
 *
 * A SAMPLE. The block is there, the program does not have its address yet. The stack is walked and numbered, the sums are
 * raised, the block goes into the live table and its page into the filter, and a new gap is drawn. Nothing of this
 * allocates or waits. A signal handler that allocates in the middle of it is not sampled (`inside`), and counted; one that frees
 * is followed all the same, since looking up and removing is safe anywhere.
 *
 * A FREE. Before the allocator has the block back, so that nobody can be given the same address while the old block is still
 * in the table.
 *
 * THE GATE says whether to sample. It lies in a page of its own that the kernel wipes in a forked child, however that was
 * made: a child that was forked behind the C library's back finds the gate shut and the tables, which it shares with
 * its parent, untouched. */
#include "target/heap/heap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/heap/control.h"
#include "target/heap/stacks.h"
#include "target/heap/sums.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/recording.h"

enum {
    LOOK_AGAIN =
        1 << 20, /* allocated bytes after which a thread looks whether it is to sample now */
    STACKS = 24 * 1024,
    BLOCKS = 192 * 1024, /* 96 GB of live memory at the default rate */
    MANY_STACKS = 256 * 1024 - 1,
    MANY_BLOCKS = 8 * 1024 * 1024,
    MANY_BELOW = 16 * 1024, /* rates that ask for large tables */
};

struct gate {
    uint32_t sampling;  /* new blocks */
    uint32_t following; /* frees of those sampled before */
};

static struct gate shut;
static struct gate *gate = &shut;

__thread struct piano__heap_self piano__heap_self;
bool piano__heap_always_watched;

static struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

static bool is_open(const uint32_t *flag)
{
    /* Pairs with the release in `set_gate`: who finds it open finds the tables. */
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set_gate(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static void set_left(struct piano__heap_self *self, uint64_t left)
{
    self->hidden = left;
    self->left = self->watched || piano__heap_always_watched ? 0 : left;
}

static void seed(struct piano__heap_self *self)
{
    static uint64_t serial;
    uint64_t number = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
    uint64_t random = 0;
    (void)syscall(SYS_getrandom, &random, sizeof random, 1 /* GRND_NONBLOCK */);
    self->tid = (uint32_t)syscall(SYS_gettid);
    piano__random_seed(&self->random, random ^ number << 32 ^ (uint64_t)self->tid << 48 ^
                                          (uint64_t)piano__monotonic_ns() ^ (uintptr_t)self);
    __atomic_fetch_add(&header()->stats.threads, 1, __ATOMIC_RELAXED);
}

static void draw(struct piano__heap_self *self)
{
    self->rate = __atomic_load_n(&header()->rate, __ATOMIC_RELAXED);
    set_left(self, piano__poisson_gap(&self->random, self->rate));
}

/* Whether a block of BYTES is to be sampled; counts it down. A thread draws its first gap before it tests. */
static bool is_due(struct piano__heap_self *self, uint64_t bytes)
{
    if (self->left > 0)
        self->hidden = self->left; /* what the hooks have counted down since */
    if (bytes < self->hidden) {
        set_left(self, self->hidden - bytes);
        return false;
    }
    if (!is_open(&gate->sampling))
        piano__control_begin();
    if (!is_open(&gate->sampling)) {
        self->rate = 0;
        set_left(self, LOOK_AGAIN);
        return false;
    }
    if (self->inside) {
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
    if (walk->flags & PIANO_STACK_LOST)
        __atomic_fetch_add(&s->walked_lost, 1, __ATOMIC_RELAXED);
    if (walk->flags & PIANO_STACK_FULL)
        __atomic_fetch_add(&s->walked_full, 1, __ATOMIC_RELAXED);
    if (walk->flags & PIANO_STACK_BY_FP)
        __atomic_fetch_add(&s->walked_by_fp, 1, __ATOMIC_RELAXED);
}

/* What the filter did since the last sample of this thread. */
static void add_filter_counts(struct piano__heap_self *self)
{
    struct piano__heap_stats *s = &header()->stats;
    __atomic_fetch_add(&s->filter_passes, self->passes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->filter_misses, self->misses, __ATOMIC_RELAXED);
    self->passes = self->misses = 0;
}

/* The address is new, so a block that is still known by it was freed where nobody saw it. */
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
    /* Not followed any more: better freed at once than live for ever. */
    piano__sums_freed(header(), block, block->birth_ns);
}

static __attribute__((noinline)) void sample(struct piano__heap_self *self, const void *p,
                                             size_t size, uint32_t flags)
{
    struct piano__walk walk;
    piano__walk_here(&self->walker, &walk);
    walk.flags |= flags;
    count_walk(&walk);
    struct piano__block block = {.address = (uintptr_t)p,
                                 .size = size,
                                 .rate = self->rate,
                                 .birth_ns = (uint64_t)piano__monotonic_ns(),
                                 .stack = piano__stacks_intern(&walk),
                                 .thread = self->tid};
    drop_stale(p);
    piano__sums_allocated(header(), &block);
    insert(&block);
    add_filter_counts(self);
    draw(self);
}

bool piano__heap_allocated(const void *p, size_t size, uint32_t flags)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (self->own || !is_due(self, piano__heap_size(size)))
        return false;
    int saved = errno;
    self->inside = 1;
    sample(self, p, size, flags);
    self->inside = 0;
    errno = saved;
    return true;
}

bool piano__heap_detach(const void *p, struct piano__block *block)
{
    if (!is_open(&gate->following))
        return false;
    piano__heap_self.passes++;
    if (!piano__live_remove((uintptr_t)p, block)) {
        piano__heap_self.misses++;
        return false;
    }
    piano__filter_remove(p);
    return true;
}

void piano__heap_reattach(const struct piano__block *block)
{
    insert(block);
}

void piano__heap_close(const struct piano__block *block)
{
    piano__sums_freed(header(), block, (uint64_t)piano__monotonic_ns());
}

void piano__heap_freed(const void *p)
{
    struct piano__block block;
    if (piano__heap_detach(p, &block))
        piano__heap_close(&block);
}

void piano__heap_watch(bool on)
{
    struct piano__heap_self *self = &piano__heap_self;
    if (!self->watched && !piano__heap_always_watched)
        self->hidden = self->left;
    self->watched = on;
    set_left(self, self->hidden);
}

static bool make_gate(void)
{
    if (gate != &shut)
        return true;
    int saved = errno;
    struct gate *page = piano__memory_map(4096);
    if (page && madvise(page, 4096, MADV_WIPEONFORK) != 0) {
        piano__memory_unmap(page, 4096); /* before Linux 4.14: a raw fork would harm its parent */
        page = NULL;
    }
    if (page)
        gate = page;
    errno = saved;
    return page != NULL;
}

/* What a first sample asks of the kernel, asked now: the program may lock itself in later, and die of any system call it
 * did not think of. Other threads still have to find their stack's bounds. */
static bool prepare(void)
{
    struct piano__heap_self *self = &piano__heap_self;
    struct piano__walk walk;
    seed(self);
    piano__walk_here(&self->walker, &walk);
    return piano__live_prepare() && piano__stacks_prepare(&walk);
}

static int begin(uint64_t rate)
{
    bool many = rate < MANY_BELOW;
    int err = piano__control_create();
    if (err != 0)
        return err;
    struct piano__rec_header *h = header();
    h->rate = rate;
    h->flags |= PIANO_REC_HAS_HEAP;
    if (!piano__live_init(many ? MANY_BLOCKS : BLOCKS) ||
        !piano__stacks_init(many ? MANY_STACKS : STACKS) || !make_gate() || !prepare())
        return -ENOMEM;
    return 0;
}

int piano__heap_start(uint64_t rate)
{
    if (header() && header()->state == PIANO_REC_ACTIVE)
        return -EALREADY;
    if (header() && header()->state == PIANO_REC_TERMINATED)
        return -ESHUTDOWN;
    if (rate == 0)
        rate = header() ? header()->rate : PIANO_DEFAULT_RATE;
    if (!header()) {
        int err = begin(rate);
        if (err != 0) {
            piano__heap_forget();
            return err;
        }
    }
    __atomic_store_n(&header()->rate, rate, __ATOMIC_RELAXED);
    __atomic_store_n(&header()->state, PIANO_REC_ACTIVE, __ATOMIC_RELAXED);
    set_gate(&gate->following, 1);
    set_gate(&gate->sampling, 1);
    piano__heap_self.rate = 0; /* the calling thread begins now; others when they next look */
    set_left(&piano__heap_self, 0);
    return 0;
}

int piano__heap_stop(void)
{
    if (!header() || header()->state != PIANO_REC_ACTIVE)
        return -ENOTCONN;
    set_gate(&gate->sampling, 0);
    __atomic_store_n(&header()->state, PIANO_REC_STOPPED, __ATOMIC_RELAXED);
    return 0;
}

int piano__heap_shutdown(void)
{
    if (!header())
        return -ENOTCONN;
    set_gate(&gate->sampling, 0);
    set_gate(&gate->following, 0);
    header()->end_mono_ns = (uint64_t)piano__monotonic_ns();
    __atomic_store_n(&header()->state, PIANO_REC_TERMINATED, __ATOMIC_RELAXED);
    return 0;
}

int piano__heap_snapshot(void)
{
    static uint32_t busy;
    if (!header() || !is_open(&gate->following))
        return -ENOTCONN;
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return -EBUSY;
    int number = piano__snapshot_take(&piano__recording.view, PIANO_SNAPSHOT_CALLED,
                                      (uint64_t)piano__monotonic_ns(), 0);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return number;
}

const struct piano__rec_header *piano__heap_header(void)
{
    return is_open(&gate->following) || gate == &shut ? header() : NULL;
}

void piano__heap_forget(void)
{
    gate->sampling = gate->following = 0;
    piano__live_forget();
    piano__stacks_forget();
    piano__recording_forget();
    piano__heap_self.rate = 0;
    piano__heap_self.tid = 0;
    piano__heap_self.inside = 0;
    set_left(&piano__heap_self, 0);
}
