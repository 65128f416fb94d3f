/* Measures the cost of the profiler.
 *
 * A pair of clock reads around nothing is not enough: the processor overlaps the reads with the
 * work around them, so the same probe costs differently around different bodies. So every probe
 * path runs around chains of dependent multiplications of several lengths and is compared with the
 * bare chains:
 *
 *     inner = what the window reports - (bare chain - bare empty call)
 *     outer = probed call - bare call - inner - what the probe measured of itself
 *
 * Of several rounds we take the minimum for call times, because interruptions only add, and the
 * median for windows. Fenced and counted probes are used around short bodies. The shorter the body,
 * the less of the probe overlaps with it, so their bias is a curve over the body length. Plain
 * probes are used around microseconds; there the median over three lengths is enough.
 *
 * The probes run on a scratch thread block with all biases zero and modes pinned, so they report
 * raw values. Nothing is written to a file. The same two milliseconds give the rate of the
 * counter. */
#include "target/span/calibrate.h"

#include <stddef.h>
#include <string.h>

#include "target/span/count.h"
#include "target/heap/heap.h"
#include "target/span/mode.h"
#include "target/span/run.h"
#include "target/span/thread.h"
#include "target/span/toll.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"

enum { DENSE = 3 }; /* shorter bodies are little more than calls */
enum { READ_EVERY = 16, READ_STEPS = 24 };
enum { REPEATS = 64, ROUNDS = 11, PAUSES = 16, LENGTHS = 3, SPIN_NS = 1500000 };

/* Not static: the compiler would know the value and build a faster probe than the program's. */
extern unsigned piano__scratch_at;
unsigned piano__scratch_at = sizeof(struct piano__thread);

/* Input and output of the chain: it reads and writes memory, as functions do. */
static uint64_t cell = 1;

static inline __attribute__((always_inline)) void chain(int steps)
{
    uint64_t x = cell;
    for (int i = 0; i < steps; i++) {
        x = x * 0x5851f42d4c957f2du + 1;
        __asm__ __volatile__("" : "+r"(x));
    }
    cell = x;
    __asm__ __volatile__("" ::: "memory");
}

static __attribute__((noinline)) void bare(int steps)
{
    chain(steps);
}

static __attribute__((noinline)) void probed(int steps)
{
    void *guard __attribute__((cleanup(__piano_leave))) = __piano_begin(&piano__scratch_at);
    chain(steps);
}

/* Small allocator like a thread cache. Calibration must not allocate, but must time the hooks in
 * front of something realistic. It is called through pointers, as the real allocator is. */
struct block {
    uint64_t size;
    struct block *next;
};

static struct block blocks[4];
static struct block *volatile cached;
static volatile uint32_t cached_count;

static __attribute__((noinline)) void *small_malloc(size_t size)
{
    struct block *b = cached;
    cached = b->next;
    cached_count--;
    b->size = size;
    return &b->next;
}

static __attribute__((noinline)) void small_free(void *p)
{
    struct block *b = (struct block *)(void *)((char *)p - offsetof(struct block, next));
    b->next = cached;
    cached = b;
    cached_count++;
}

static __attribute__((noinline)) size_t small_usable_size(void *p)
{
    return ((struct block *)(void *)((char *)p - offsetof(struct block, next)))->size & ~(size_t)7;
}

static void *(*volatile next_malloc)(size_t) = small_malloc;
static void (*volatile next_free)(void *) = small_free;
static size_t (*volatile next_usable_size)(void *) = small_usable_size;

/* Same code path as preload/alloc.c when a thread's allocations are counted. */
static __attribute__((noinline)) void *long_malloc(size_t size)
{
    bool outermost = piano__hook_begin();
    void *p = piano__hook_done(outermost, next_malloc(size), size);
    if (p && outermost && !piano__heap_passes_hidden(size))
        piano__heap_allocated(p, size, 0);
    return p;
}

static __attribute__((noinline)) void *hooked_malloc(size_t size)
{
    return piano__heap_passes(size) ? next_malloc(size) : long_malloc(size);
}

static __attribute__((noinline)) void long_free(void *p)
{
    bool outermost = piano__hook_begin();
    if (piano__filter_may_hold(p))
        piano__heap_freed(p);
    struct piano__thread *t = piano__self_thread();
    if (outermost && t->owner)
        piano__count_free(t, next_usable_size(p));
    next_free(p);
    piano__hooks_open--;
}

static __attribute__((noinline)) void hooked_free(void *p)
{
    if (piano__heap_free_passes(p))
        next_free(p);
    else
        long_free(p);
}

static __attribute__((noinline)) void calling_malloc(int steps)
{
    small_free(small_malloc(16));
    chain(steps);
}

static __attribute__((noinline)) void calling_hook(int steps)
{
    hooked_free(hooked_malloc(16));
    chain(steps);
}

/* Trees of recursive calls show what a counted probe costs when there is no body to overlap with,
 * when each probe waits for the sums of the one before, and when it takes registers from the
 * compiler. The asm keeps the second call from becoming a loop. */
enum { TREE = 10, TREE_CALLS = 177 };

static __attribute__((noinline)) int bare_tree(int n)
{
    if (n < 2)
        return n;
    int sum = bare_tree(n - 1);
    int last = bare_tree(n - 2);
    __asm__ __volatile__("" : "+r"(last));
    return sum + last;
}

static __attribute__((noinline)) int probed_tree(int n)
{
    void *guard __attribute__((cleanup(__piano_leave))) = __piano_begin(&piano__scratch_at);
    if (n < 2)
        return n;
    int sum = probed_tree(n - 1);
    int last = probed_tree(n - 2);
    __asm__ __volatile__("" : "+r"(last));
    return sum + last;
}

static void calling_bare_tree(int steps)
{
    (void)steps;
    cell += (uint64_t)bare_tree(TREE);
}

static void calling_probed_tree(int steps)
{
    (void)steps;
    cell += (uint64_t)probed_tree(TREE);
}

/* 1/256 ticks per call: without probe, with probe, and what the probe measured of itself. */
struct twins {
    int64_t bare;
    int64_t probed;
    int64_t measured;
};

static int64_t time_round(void (*body)(int), int steps)
{
    int64_t start = piano__ticks_fenced();
    for (int i = 0; i < REPEATS; i++)
        body(steps);
    return piano__ticks_fenced() - start;
}

/* Minimum over rounds. The two alternate because the machine may change its speed. */
static struct twins time_twins(void (*plain)(int), void (*watched)(int), int steps)
{
    const struct piano__thread *t = piano__self_thread();
    struct twins best = {INT64_MAX, INT64_MAX, 0};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t spent = time_round(plain, steps), before = t->overhead;
        best.bare = spent < best.bare ? spent : best.bare;
        spent = time_round(watched, steps);
        if (spent < best.probed) {
            best.probed = spent;
            best.measured = (t->overhead - before) / REPEATS;
        }
    }
    best.bare = best.bare * 256 / REPEATS;
    best.probed = best.probed * 256 / REPEATS;
    return best;
}

/* 1/256 ticks per call of BODY, minimum over rounds. */
static int64_t time_calls(void (*body)(int), int steps)
{
    return time_twins(body, body, steps).bare;
}

static int64_t median3(const int64_t v[LENGTHS])
{
    int64_t low = v[0] < v[1] ? v[0] : v[1];
    int64_t high = v[0] < v[1] ? v[1] : v[0];
    return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* The counter may advance in steps of 10 ns, so one window is off by up to a step. The mean of many
 * is right if they begin anywhere in a step; the pauses between them ensure that. We take the
 * median of the rounds: the minimum would be the round whose windows happened to begin best. */
struct rounds {
    int64_t sums[ROUNDS];
    int count;
};

static void put_round(struct rounds *rounds, int64_t sum)
{
    int at = rounds->count++;
    for (; at > 0 && rounds->sums[at - 1] > sum; at--)
        rounds->sums[at] = rounds->sums[at - 1];
    rounds->sums[at] = sum;
}

/* 1/256 ticks per call. */
static int64_t middle_round(const struct rounds *rounds)
{
    return rounds->sums[ROUNDS / 2] * 256 / REPEATS;
}

static int64_t window_of_calls(struct piano__slot *slot, int steps)
{
    struct rounds rounds = {.count = 0};
    while (rounds.count < ROUNDS) {
        slot->now.self = 0;
        for (int i = 0; i < REPEATS; i++) {
            bare(i % PAUSES);
            probed(steps);
        }
        put_round(&rounds, slot->now.self);
    }
    return middle_round(&rounds);
}

/* Returns the time between two fenced reads in 1/256 ticks; never 0. */
static int64_t pair_of_reads(void)
{
    struct rounds rounds = {.count = 0};
    while (rounds.count < ROUNDS) {
        int64_t sum = 0;
        for (int i = 0; i < REPEATS; i++) {
            bare(i % PAUSES);
            int64_t first = piano__ticks_fenced();
            sum += piano__ticks_fenced() - first;
        }
        put_round(&rounds, sum);
    }
    int64_t pair = middle_round(&rounds);
    return pair > 0 ? pair : 1;
}

/* Sums over REPEATS calls, in 1/256 ticks. */
struct sums {
    int64_t window;
    int64_t begin; /* what probes measured of themselves at the begin and at the end of a call */
    int64_t end;
    int64_t all; /* everything, in a tight loop */
};

static struct sums time_probes(struct piano__thread *t, struct piano__slot *slot)
{
    int64_t before = t->overhead;
    slot->now.self = 0;
    for (int i = 0; i < REPEATS; i++) {
        bare(i % PAUSES);
        probed(READ_STEPS);
    }
    struct sums sums = {.window = 256 * slot->now.self, .end = t->overhead - before};
    sums.all = 256 * time_round(probed, READ_STEPS);
    return sums;
}

/* Probes that are drawn at random to measure themselves. They have a mispredicted branch, which a
 * sequence of measured probes does not have. */
static struct sums time_drawn(struct piano__thread *t, struct piano__slot *slot)
{
    const struct piano__entry *e = piano__entries(t);
    struct sums sums = {.end = -t->overhead};
    for (int drawn = 0; drawn < REPEATS; drawn += e->probe != 0) {
        slot->toll = (struct piano__toll){.seen = PIANO_TOLL_LEARN};
        if (t->unmeasured < 0 || t->unmeasured >= READ_EVERY)
            t->unmeasured = (int64_t)(piano__thread_random(t) % READ_EVERY);
        bare((int)(piano__thread_random(t) % PAUSES));
        probed(READ_STEPS);
        sums.begin += e->probe;
    }
    sums.end += t->overhead - sums.begin;
    return sums;
}

/* Compares probes that measure themselves with probes that do not. */
static void calibrate_reads(struct piano__thread *t, struct piano__slot *slot,
                            struct piano__bias *found)
{
    struct rounds begins = {.count = 0}, ends = {.count = 0};
    while (ends.count < ROUNDS) {
        t->crowded_until = INT64_MAX;
        struct sums measured = time_probes(t, slot);
        t->crowded_until = 0;
        t->unmeasured = INT32_MAX;
        slot->toll = (struct piano__toll){.seen = PIANO_TOLL_LEARN};
        struct sums others = time_probes(t, slot), drawn = time_drawn(t, slot);
        int64_t longer = others.window - measured.window;
        put_round(&begins, drawn.begin - longer);
        put_round(&ends, drawn.end + longer + measured.all - measured.end - others.all);
    }
    found->begin_read = middle_round(&begins) / 256;
    found->end_read = middle_round(&ends) / 256;
    t->crowded_until = INT64_MAX;
}

static void calibrate_plain(struct piano__slot *slot, struct piano__bias *found)
{
    static const int lengths[LENGTHS] = {200, 400, 800};
    int64_t inners[LENGTHS], totals[LENGTHS];
    int64_t empty = time_calls(bare, 0);
    slot->mode = PIANO_PLAIN;
    for (int i = 0; i < LENGTHS; i++) {
        struct twins plain = time_twins(bare, probed, lengths[i]);
        inners[i] = window_of_calls(slot, lengths[i]) - (plain.bare - empty);
        totals[i] = plain.probed - plain.bare - plain.measured;
    }
    found->plain_inner = median3(inners);
    found->plain_outer = median3(totals) - found->plain_inner;
}

static void calibrate_short(struct piano__thread *t, struct piano__slot *slot,
                            struct piano__head *head, struct piano__bias *found)
{
    static const int lengths[PIANO_BODIES] = {0, 1, 2, 4, 8, 24, 64, 240};
    int64_t empty = time_calls(bare, 0);
    slot->mode = PIANO_FENCED;
    found->pair = pair_of_reads();
    for (int i = 0; i < PIANO_BODIES; i++) {
        int64_t pair = pair_of_reads();
        head->left = head->given = INT32_MAX;
        struct twins counted = time_twins(bare, probed, lengths[i]);
        head->left = head->given = 0;
        found->body[i] = counted.bare > empty ? counted.bare - empty : 0;
        found->counted[i] = counted.probed > counted.bare ? counted.probed - counted.bare : 0;
        /* PAIR corrects for a change of machine speed since `found->pair`. */
        int64_t inner = (window_of_calls(slot, lengths[i]) - found->body[i]) * found->pair / pair;
        struct twins timed = time_twins(bare, probed, lengths[i]);
        int64_t both = (timed.probed - timed.bare - timed.measured) * found->pair / pair;
        if (i >= DENSE && inner > found->inner[i - 1])
            inner = found->inner[i - 1]; /* more overlaps with a longer body, not less */
        found->inner[i] = inner;
        found->outer[i] = both - inner;
        found->window[i] = found->body[i] + found->inner[i];
    }
    calibrate_reads(t, slot, found);
}

static void calibrate_recursion(struct piano__head *head, struct piano__bias *found)
{
    head->left = head->given = INT32_MAX;
    struct twins trees = time_twins(calling_bare_tree, calling_probed_tree, 0);
    int64_t tree = trees.probed - trees.bare;
    head->left = head->given = 0;
    for (int i = 0; i < PIANO_BODIES; i++) {
        bool dense = i < DENSE && found->counted[i] < tree / TREE_CALLS;
        found->recursing[i] = dense ? tree / TREE_CALLS : found->counted[i];
    }
    found->recursing[DENSE] = (found->recursing[DENSE - 1] + found->recursing[DENSE + 1]) / 2;
}

static void calibrate_alloc(struct piano__bias *found)
{
    blocks[0].next = NULL;
    cached = blocks;
    uintptr_t own_before = piano__heap_own_begin(); /* do not record these blocks as allocations */
    piano__filter_begin();                          /* in a static program no hook has done it */
    piano__heap_watch(true);
    struct twins pairs = time_twins(calling_malloc, calling_hook, 0);
    int64_t pair = pairs.probed - pairs.bare;
    piano__heap_watch(false);
    piano__heap_own_end(own_before);
    found->alloc = pair > 0 ? pair / 2 : 0;
}

static void calibrate_probes(struct piano__thread *t, struct piano__bias *bias)
{
    struct piano__bias found = {0};
    struct piano__slot *slot = piano__slots(t);
    slot->in_now = 1;
    t->chain = UINT32_MAX;
    t->crowded_until = INT64_MAX; /* every probe measures itself */
    calibrate_short(t, slot, piano__heads(t), &found);
    calibrate_recursion(piano__heads(t), &found);
    calibrate_plain(slot, &found);
    t->owner = (uintptr_t)piano__heads(t);
    calibrate_alloc(&found);
    *bias = found;
}

static void calibrate_rate(struct piano__live_header *header, int64_t tick0, int64_t ns0)
{
    header->ns_per_tick_32 = (uint64_t)1 << 32;
    if (!piano__clock_is_counter)
        return;
    int64_t ns1 = piano__monotonic_ns();
    while (ns1 - ns0 < SPIN_NS)
        ns1 = piano__monotonic_ns();
    int64_t ticks = piano__counter() - tick0;
    if (ticks <= 0) { /* the counter does not advance */
        piano__clock_is_counter = false;
        memset(&header->bias, 0, sizeof header->bias);
        return;
    }
    header->ns_per_tick_32 = (uint64_t)(((unsigned __int128)(ns1 - ns0) << 32) / (uint64_t)ticks);
}

void piano__calibrate(struct piano__live_header *header)
{
    int64_t ns0 = piano__monotonic_ns();
    int64_t tick0 = piano__counter();
    struct piano__thread *t = piano__memory_map(header->block_bytes);
    if (t) {
        struct __piano_thread *before = __piano_self;
        bool pinned = piano__mode_pinned;
        t->real_limit = t->limit = piano__head_offset(1);
        t->state = PIANO_THREAD_RUNNING;
        piano__mode_pinned = true;
        t->look_soon = t->look_late = INT64_MAX; /* no CPU time readings during calibration */
        __piano_self = (struct __piano_thread *)t;
        calibrate_probes(t, &header->bias);
        __piano_self = before;
        piano__mode_pinned = pinned;
        piano__memory_unmap(t, header->block_bytes);
    }
    calibrate_rate(header, tick0, ns0);
    piano__curve_tabulate(&header->bias);
}
