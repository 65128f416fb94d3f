/* The out-of-line half of a probe: everything but a call that is merely counted.
 *
 * TIME. Each thread has running sums. `attributed`: ticks given to functions so far, counted calls at their price.
 * `correction`: what samples have added to these prices. `overhead`: what the probes themselves took, in 1/256 ticks.
 * `raw`: the part of that overhead which has been charged to some function. (What counted calls add to `attributed` and
 * `overhead` waits in `counted`, see `add_counted`.) A timed call remembers them when it begins; when it ends
 *
 *     total = elapsed - overhead inside - inner bias
 *     self  = total - attributed inside - correction inside
 *
 * and `attributed` becomes what it was at the start plus `total`. So a caller's self time excludes its
 * callees, timed or counted, and all probe costs below it, without one record per edge; and the self times of
 * all functions inside a timed call add up to its total whatever the estimates were (the rest, of either
 * sign, stays with the caller). The outer bias is added after the end, so the caller pays nothing. The variance of
 * the corrections inside is the variance of the caller's self time.
 *
 * MODES (mode.c). A FENCED or PLAIN function is timed on every call. A SAMPLED one is counted for a random number of
 * calls by the inline path, then one call is timed, fenced, and one before it to warm up the probe, unless a call was
 * timed a moment ago.
 *
 * SAMPLES are exact: while a sampled call is the innermost timed one, the calls it makes are all timed (BELOW), so
 * its self time depends on no estimate, and a callee that costs more when this function calls it is not taken for
 * this function's own time. What happens further down is counted as usual. A sample does not subtract
 * corrections: those of samples inside it belong to calls outside it, and go to the timed caller that encloses all.
 *
 * RECURSION. A function found on the stack again is marked `recursive`. Totals count the outermost call only.
 * When such a function is sampled, its outermost calls stay timed (`outer_timed`), and only those inside may be
 * counted, unless they are too short for that; see `add_total`.
 *
 * LOST EXITS. longjmp skips probes. A call that begins with a stack pointer above that of the top entry, or at
 * the very place of it, means those entries are dead, provided both lie on this thread's own stack (signal stacks and coroutines do not).
 * A call that ends closes whatever is left above its own entry. `seq` tells a reused entry from the one a
 * guard knew.
 *
 * SIGNALS. A handler may run instrumented functions at any point. Its probes leave the stack as they found
 * it; while `busy` is set they are not recorded but counted as dropped, unless its holder was left by a jump (repair.c). What the inline path changes it changes
 * with one instruction each, where the compiler does (gcc does from -O2 on; of clang the counter of calls is an exception, and
 * without optimisation nothing is): a handler that calls the same function in between may else undo some calls. */
#include "target/span/span.h"

#include "common/lines.h"
#include "target/span/calibrate.h"
#include "target/span/frame.h"
#include "target/span/mode.h"
#include "target/span/onoff.h"
#include "target/span/pace.h"
#include "target/span/pay.h"
#include "target/span/repair.h"
#include "target/span/run.h"
#include "target/span/unwatched.h"
#include "target/sys/clock.h"
#include "target/sys/stack.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define compiler_barrier() __asm__ __volatile__("" ::: "memory")

enum { INDEX_BITS = 12 };
enum {
    SAMPLE_ROOM = 64,
    COLD_NS = 2000,
    RECENT_NS = 10000,
    LEAST_SPENT = 16 * 256,
    MOST_SPENT = 8192 * 256
};
_Static_assert(PIANO_MAX_DEPTH <= 1 << INDEX_BITS, "an index fits its bits of a guard");

/* A guard of a timed call:  | seq | index, 12 bits | 1 |  */
static void *make_guard(uint64_t seq, uint32_t index)
{
    return (void *)(uintptr_t)((seq << (INDEX_BITS + 1)) | (uint64_t)index << 1 | 1);
}

static uint32_t guard_index(uint64_t bits)
{
    return (uint32_t)(bits >> 1) & ((1u << INDEX_BITS) - 1);
}

static bool is_guard_of(const struct piano__entry *e, uint32_t index, uint64_t bits)
{
    return (uintptr_t)make_guard(e->seq, index) == bits;
}

/* While the thread's tables are being changed, probes of a signal handler must stay out: they come the long way
 * (`limit`) and go again (`busy`). */
static inline __attribute__((always_inline)) void lock(struct piano__thread *t)
{
    t->busy = piano__stack_pointer();
    t->limit = 0;
    compiler_barrier();
}

/* The calls that a sampled call makes are timed, so they come the long way. */
static bool is_in_sample(struct piano__thread *t)
{
    return t->depth > 0 && piano__entries(t)[t->depth - 1].flags & PIANO_ENTRY_SAMPLED;
}

static void unlock(struct piano__thread *t)
{
    compiler_barrier();
    t->busy = 0;
    t->limit = unlikely(is_in_sample(t)) ? 0 : t->real_limit;
}

/* Whenever a call comes the long way, and before the sums are looked at. What was counted since the last time is in one word: a
 * function counts no more than some 8000 calls in a row, so that only hundreds of functions which all do that, and never once come
 * here, could fill a half of it. */
static void add_counted(struct piano__thread *t)
{
    uint64_t counted = t->counted;
    t->attributed += piano__each_self(counted);
    t->overhead += piano__each_cost(counted);
    t->counted -= counted;
}

/* Adds to the function's total what this call adds to it, and returns that. Every moment counts once: normally
 * the outermost call has it all. A function that calls itself and is sampled has no known outermost call; then
 * each call adds its time without that of the calls of itself below it. */
static int64_t add_total(struct piano__thread *t, struct piano__slot *slot,
                         const struct piano__entry *e, int64_t self, int64_t total)
{
    if (slot->mode == PIANO_SAMPLED && slot->recursive == PIANO_CALLS_ITSELF && !slot->outer_timed)
        total = e->flags & PIANO_ENTRY_SAMPLED ? total - e->itself : self;
    else if (slot->open > 0)
        return total;
    if (!(e->flags & PIANO_ENTRY_WARM))
        slot->now.total += total;
    if (slot->outer_timed && slot->open == 0) {
        struct piano__head *head = piano__head_of(t, slot);
        piano__frame_settle(t, slot);
        slot->left_saved = head->left;
        head->left = head->given = 0;
    }
    return total;
}

static struct piano__timing measure(const struct piano__thread *t, const struct piano__entry *e,
                                    int64_t now)
{
    const struct piano__bias *bias = &piano__run.header->bias;
    struct piano__timing m = {.inner = bias->plain_inner, .outer = bias->plain_outer};
    if (e->flags & PIANO_ENTRY_FENCED) {
        struct piano__place place = piano__curve_place(bias->window, (now - e->start) * 256);
        m.inner = piano__paced(t, piano__curve_value(bias->inner, place));
        m.outer = piano__paced(t, piano__curve_value(bias->outer, place));
    }

    m.total = now - e->start - ((t->overhead - e->overhead + m.inner + 128) >> 8);
    if (m.total < 0)
        m.total = 0; /* a tiny window, and a probe that cost less than it does on average */
    m.self = m.total - (t->attributed - e->attributed);
    /* What the end of a fenced probe takes is not known yet; about as much as its begin. */
    m.spent = m.inner + m.outer + 2 * e->probe;
    if (m.spent < LEAST_SPENT || m.spent > MOST_SPENT)
        m.spent = m.spent < LEAST_SPENT ? LEAST_SPENT : MOST_SPENT; /* more is a preemption */
    if (e->flags & PIANO_ENTRY_SAMPLED)
        m.below = t->overhead - e->overhead;
    return m;
}

/* The call before a sample runs through a probe that is no longer in the caches. It is charged at the price of a
 * counted call, and what it took beyond that was the probe's; unless it is so long that it must have been the function:
 * then that stays with the caller, as it does for any counted call. */
static void price_warm_call(struct piano__thread *t, const struct piano__slot *slot,
                            struct piano__timing *m)
{
    int64_t beyond = m->self - piano__each_self(piano__head_of(t, slot)->each);
    int64_t below = m->total - m->self;
    if (piano__ticks_ns(beyond, piano__run.header->ns_per_tick_32) < COLD_NS)
        m->inner += beyond * 256;
    m->self -= beyond;
    m->total = below + m->self;
}

/* Gives a call that ended its share, and the thread's sums what its callers need to know of it. */
static void account(struct piano__thread *t, struct piano__slot *slot, struct piano__entry *e,
                    struct piano__timing *m, int64_t now)
{
    int64_t over = t->overhead - e->overhead + m->inner;
    int64_t charged = over - (t->raw - e->raw);
    if (t->depth > 1 && e[-1].slot == e->slot)
        e[-1].itself += m->total;
    t->attributed = e->attributed + m->total;
    t->overhead += m->inner + m->outer;
    t->raw = e->raw + over;
    if (!(e->flags & (PIANO_ENTRY_SAMPLED | PIANO_ENTRY_BELOW))) {
        m->self -= t->correction - e->correction;
        slot->now.self_var += t->variance - e->variance;
        t->correction = e->correction;
        t->variance = e->variance;
        if (unlikely(e->payee)) {
            struct piano__paid paid = piano__pay_end(t, e, m->self, now);
            m->self -= paid.ticks;
            slot->now.self_var += paid.variance;
        }
    }
    slot->now.self += m->self;
    slot->now.raw += m->self + ((charged + 128) >> 8);
}

/* Ends the innermost timed call of the calling thread as of NOW. */
static void close_top(struct piano__thread *t, int64_t now)
{
    struct piano__entry *e = &piano__entries(t)[t->depth - 1];
    struct piano__slot *slot = &piano__slots(t)[e->slot];
    if (unlikely(e->start > now))
        e->start = now; /* a signal handler jumped away before the call had begun */
    add_counted(t);
    struct piano__timing m = measure(t, e, now);
    if (unlikely(!slot->in_now))
        piano__frame_touch(t, slot);
    bool warm = e->flags & PIANO_ENTRY_WARM;
    if (warm) {
        price_warm_call(t, slot, &m);
        slot->now.total += slot->total_price;
    } else {
        slot->now.timed++;
    }
    account(t, slot, e, &m, now);
    if (m.total > slot->now.longest)
        slot->now.longest = m.total;
    if (unlikely(now - e->start >= piano__onoff_medium) && !warm)
        piano__onoff_close(t, slot, e, now, m.self, m.total);
    else if (unlikely(slot->was_long))
        piano__onoff_was_short(slot);
    slot->open--;
    int64_t wall = m.total;
    m.total = add_total(t, slot, e, m.self, m.total);
    t->owner = e->owner;
    t->last_tick = now;
    t->depth--;
    if (unlikely(!t->watched))
        piano__unwatched_add(t, slot, m.self, now);
    piano__mode_timed(t, slot, e, &m, now);
    if (e->flags & PIANO_ENTRY_FRAME)
        piano__frame_end(t, e, wall > 0 ? wall : 0);
}

/* Ends the innermost timed call as of NOW, which is later than it really ended: a longjmp skipped its exit. As a
 * sample it tells nothing. */
static void abandon_top(struct piano__thread *t, int64_t now)
{
    struct piano__entry *e = &piano__entries(t)[t->depth - 1];
    if (e->flags & PIANO_ENTRY_SAMPLED)
        e->flags |= PIANO_ENTRY_WARM;
    close_top(t, now);
}

void piano__span_close_all(struct piano__thread *t, int64_t now)
{
    if (t->busy)
        piano__repair(t); /* a signal handler ends the thread, or the program */
    lock(t);
    while (t->depth > 0)
        abandon_top(t, now);
    unlock(t);
}

/* Where a probe was called from. */
struct caller {
    uintptr_t stack;
    uintptr_t site;
};

/* A function that is entered again at the same place in the same frame cannot still be running there. */
static bool is_dead(const struct piano__entry *e, struct caller from)
{
    return e->stack < from.stack || (e->stack == from.stack && e->site == from.site);
}

/* Entries left behind by a longjmp: younger frames of the same stack, further down than a live one. */
static void drop_dead(struct piano__thread *t, struct piano__entry *entries, struct caller from)
{
    int64_t now = piano__ticks();
    while (t->depth > 0 && is_dead(&entries[t->depth - 1], from)) {
        uintptr_t top = entries[t->depth - 1].stack;
        if (!piano__stack_holds(&t->stack_low, &t->stack_high, top) ||
            !piano__stack_holds(&t->stack_low, &t->stack_high, from.stack))
            return;
        abandon_top(t, now);
    }
}

/* For calls of a recursive function inside a sampled one of it to be counted inline: far up in a tree those are thousands. A few at
 * a time, since a longjmp may have skipped the sample's end, and only a call that comes the long way can find that out. */
static void make_room(struct piano__head *head)
{
    head->left += SAMPLE_ROOM; /* first: a reader in between finds nothing pending, not too much */
    compiler_barrier();
    head->given += SAMPLE_ROOM;
}

/* What the inline path does; for a call that came the long way for another reason. With nothing left, it counts as given: see
 * `piano__head_left`. */
static void *count(struct piano__thread *t, struct piano__head *head)
{
    void *before = (void *)(uintptr_t)t->owner;
    if (head->left > 0)
        head->left--;
    else
        head->given++;
    t->counted += head->each;
    t->owner = (uintptr_t)head;
    return before;
}

static struct piano__entry *push(struct piano__thread *t, struct piano__slot *slot,
                                 struct caller from, uint32_t flags)
{
    uint32_t index = t->depth;
    struct piano__entry *e = &piano__entries(t)[index];
    e->start = INT64_MAX; /* not begun: see `send_open_calls` in common/live.c */
    compiler_barrier();
    t->depth = index + 1;
    compiler_barrier();
    e->slot = (uint32_t)(slot - piano__slots(t));
    e->flags = flags;
    e->seq = ++t->seq;
    e->stack = from.stack;
    e->site = from.site;
    e->owner = t->owner;
    if (unlikely(index == t->chain || slot->framed))
        piano__frame_begin(t, e);
    struct piano__head *head = piano__head_of(t, slot);
    t->owner = (uintptr_t)head;
    slot->now.calls++;
    if (slot->open++ == 0 && slot->outer_timed)
        head->left = head->given = slot->left_saved;
    if (flags & PIANO_ENTRY_SAMPLED) {
        slot->sampling = 1;
        if (slot->recursive)
            make_room(head);
    }
    e->attributed = t->attributed;
    e->overhead = t->overhead;
    e->raw = t->raw;
    e->correction = t->correction;
    e->variance = t->variance;
    e->itself = 0;
    e->probe = 0;
    e->own = e->unpaid = e->noise = 0;
    e->payee = 0;
    if (t->looked_depth > index)
        t->looked_depth = index;
    return e;
}

/* A call was timed less than RECENT_NS ago, so the probe is still in the caches. */
static bool is_recent(const struct piano__thread *t, int64_t now)
{
    return piano__ticks_ns(now - t->last_tick, piano__run.header->ns_per_tick_32) < RECENT_NS;
}

/* The entry of a call that is to be timed; NULL for one that is only to be counted. */
static struct piano__entry *enter_attached(struct piano__thread *t, struct piano__slot *slot,
                                           struct caller from, int64_t now)
{
    struct piano__entry *entries = piano__entries(t);
    if (unlikely(t->depth > 0 && is_dead(&entries[t->depth - 1], from)))
        drop_dead(t, entries, from);
    if (!slot->in_now)
        piano__frame_touch(t, slot);
    struct piano__head *head = piano__head_of(t, slot);
    if (head->left <= 0 && slot->sampling && slot->recursive)
        make_room(head);
    if (head->left <= 0 && slot->resting && !slot->sampling && slot->mode == PIANO_SAMPLED &&
        !(slot->outer_timed && slot->open == 0))
        piano__mode_next_stratum(t, slot);
    bool is_due = head->left <= 0 && !slot->sampling;
    if (is_due && slot->mode == PIANO_SAMPLED && !slot->warm && !is_in_sample(t) &&
        !(slot->outer_timed && slot->open == 0) && is_recent(t, now)) {
        slot->warm = 1; /* no need to warm up: the next call is the sample */
        return NULL;
    }
    if (!is_due && !is_in_sample(t))
        return NULL;
    if (unlikely(t->depth >= PIANO_MAX_DEPTH)) {
        piano__dropped_add(&piano__run.header->dropped.depth);
        slot->now.calls++; /* here, not in `left`: it may not be sampled */
        slot->now.self += piano__each_self(head->each);
        head->left++;
        return NULL;
    }
    if (slot->open > 0 && slot->recursive != PIANO_CALLED_BACK)
        slot->recursive = &piano__slots(t)[entries[t->depth - 1].slot] == slot ? PIANO_CALLS_ITSELF
                                                                               : PIANO_CALLED_BACK;
    uint32_t flags = slot->mode == PIANO_PLAIN ? 0 : PIANO_ENTRY_FENCED;
    if (slot->mode == PIANO_SAMPLED) {
        if (slot->outer_timed && slot->open == 0)
            flags = 0; /* the outermost call: timed, and not a sample */
        else if (is_due)
            flags |= PIANO_ENTRY_SAMPLED | (slot->warm ? 0 : PIANO_ENTRY_WARM);
        else
            flags |= PIANO_ENTRY_BELOW;
    }
    return push(t, slot, from, flags);
}

/* E is a sample, or timed with the fenced clock inside of one: a reading in there would disturb it. */
static bool is_of_sample(const struct piano__thread *t, const struct piano__entry *e)
{
    return e->flags & PIANO_ENTRY_SAMPLED ||
           (e->flags & PIANO_ENTRY_FENCED && t->depth > 1 && e[-1].flags & PIANO_ENTRY_SAMPLED);
}

/* The call begins when the time on and off the CPU has been read; that is the caller's, and overhead of it. Time off the CPU
 * since BEGAN is the profiler's. */
static __attribute__((noinline)) void look_first(struct piano__thread *t, struct piano__entry *e,
                                                 int64_t began)
{
    lock(t);
    piano__onoff_look(t, began);
    t->looked_depth = t->depth - 1; /* this call begins with what was read just now */
    int64_t start = e->flags & PIANO_ENTRY_FENCED ? piano__ticks_fenced() : piano__ticks();
    t->overhead += (start - e->start) * 256;
    e->overhead = t->overhead;
    e->start = start;
    unlock(t);
}

/* The calling thread, attached and with room for the head at OFFSET; NULL when it cannot be. */
static __attribute__((noinline)) struct piano__thread *attach(uint32_t offset)
{
    if (offset == 0 || !piano__run_start())
        return NULL;
    struct piano__thread *t = piano__thread_attach();
    return t && offset < t->real_limit ? t : NULL;
}

/* What a probe takes depends on what is in the caches and how well the processor predicts it, so most of it is
 * measured: from the first thing the probe does to the begin of the window, and from the end of the window to one
 * of the last. The first read waits until what the caller has begun is done: that is the caller's time, not the probe's. What frames and readings of CPU time took (WORK before) they
 * have added themselves. The rest is calibrated. */
static void measure_entry(struct piano__thread *t, struct piano__entry *e, int64_t began,
                          int64_t work)
{
    int64_t took = (e->start - began) * 256 - (t->frame_work - work);
    t->overhead += took;
    e->overhead += took;
    e->probe = took;
}

static void measure_exit(struct piano__thread *t, int64_t from, int64_t work)
{
    int64_t end = piano__ticks_end();
    if (unlikely(end - from >= piano__onoff_torn))
        end = piano__onoff_after(t, from);
    t->overhead += (end - from) * 256 - (t->frame_work - work);
}

/* While this is set, the watcher gives the time to no function. The store retires after what the program did before the
 * probe, so the watcher still sees that as the program's. */
static inline __attribute__((always_inline)) void set_probing(struct piano__thread *t, uint64_t on)
{
    __atomic_store_n(&t->probing, on, __ATOMIC_RELAXED);
}

void *__piano_enter(unsigned offset)
{
    struct piano__thread *t = piano__self_thread();
    set_probing(t, 1);
    int64_t began = piano__ticks_end();
    if (unlikely(offset >= t->real_limit || offset == 0)) {
        t = attach(offset);
        if (!t)
            return (void *)(uintptr_t)piano__self_thread()->owner;
    }
    if (unlikely(t->busy) && !piano__repair_left(t, (uintptr_t)__builtin_frame_address(0))) {
        piano__dropped_add(&piano__run.header->dropped.busy);
        return (void *)(uintptr_t)t->owner;
    }
    int64_t work = t->frame_work;
    struct piano__slot *slot = &piano__slots(t)[piano__head_id(offset)];
    struct caller from = {(uintptr_t)__builtin_frame_address(0),
                          (uintptr_t)__builtin_return_address(0)};
    lock(t);
    add_counted(t);
    struct piano__entry *e = enter_attached(t, slot, from, began);
    void *guard = e ? make_guard(e->seq, t->depth - 1) : count(t, piano__head_of(t, slot));
    unlock(t);
    if (!e) {
        set_probing(t, 0);
        return guard;
    }
    int64_t due = piano__onoff_due(t, slot);
    e->start = e->flags & PIANO_ENTRY_FENCED ? piano__ticks_fenced() : piano__ticks();
    measure_entry(t, e, began, work);
    if (unlikely(e->start - began >= piano__onoff_torn))
        look_first(t, e, began); /* the probe lost the CPU: that is no wait of the program */
    else if (unlikely(e->start >= due) && !is_of_sample(t, e))
        look_first(t, e, e->start);
    set_probing(t, 0);
    return guard;
}

void __piano_exit(void *guard)
{
    uint64_t bits = (uintptr_t)guard;
    uint32_t index = guard_index(bits);
    struct piano__thread *t = piano__self_thread();
    if (unlikely(index >= t->depth))
        return;
    struct piano__entry *e = &piano__entries(t)[index];
    set_probing(t, 1);
    bool fenced = e->flags & PIANO_ENTRY_FENCED;
    int64_t now = fenced ? piano__ticks_end() : piano__ticks();
    if (unlikely(!is_guard_of(e, index, bits))) {
        set_probing(t, 0);
        return;
    }
    if (unlikely(t->busy) && !piano__repair_left(t, (uintptr_t)__builtin_frame_address(0)))
        return; /* the probe that this one interrupted clears `probing` */
    int64_t work = t->frame_work;
    lock(t);
    while (t->depth > index + 1)
        abandon_top(t, now);
    close_top(t, now);
    measure_exit(t, now, work);
    if (fenced && unlikely(piano__pace_is_due(t)))
        piano__pace_take(t); /* now that it is closed: the caller's time, and overhead of that */
    unlock(t);
    set_probing(t, 0);
}

void __piano_land(void *guard, unsigned offset)
{
    uint64_t bits = (uintptr_t)guard;
    uint32_t index = guard_index(bits);
    struct piano__thread *t = piano__self_thread();
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    if (!piano__is_attached(t) || offset >= t->real_limit || offset == 0)
        return;
    if (t->busy && !piano__repair_left(t, stack))
        return;
    struct piano__entry *entries = piano__entries(t);
    bool timed = (bits & 1) && index < t->depth && is_guard_of(&entries[index], index, bits);
    int64_t now = piano__ticks();
    lock(t);
    while (t->depth > 0 && (timed ? t->depth > index + 1 : entries[t->depth - 1].stack < stack))
        abandon_top(t, now);
    t->owner = (uintptr_t)((char *)t + offset);
    unlock(t);
}
