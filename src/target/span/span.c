/* Out-of-line half of the probe: handles every call that the inline path does not simply count.
 * times.h has the arithmetic of times.
 *
 * COST. A call of a FENCED function usually reads the clock twice: first thing at its begin and at
 * its end (enter_fast). The bookkeeping of the begin is then inside the window, between the read and
 * a fence. All other probes, and some that are drawn at random, measure themselves with two more
 * reads (toll.h).
 *
 * MODES (mode.c). FENCED and PLAIN functions are timed on every call. For a SAMPLED function the
 * inline path counts a random number of calls, then one call is timed, fenced. The call before it
 * is timed too, to warm up the probe, unless the thread timed a call within the last RECENT_NS.
 *
 * SAMPLES are exact. While a sampled call is the innermost timed call, all calls it makes are timed
 * (BELOW). So its self time uses no estimate. Deeper calls are counted as usual. Corrections inside
 * a sample stand for calls outside it, so they go to the enclosing timed caller, not the sample.
 *
 * RECURSION. A function that is already on the stack is marked `recursive`. Totals count only the
 * outermost call. When such a function is sampled, its outermost calls stay timed (`outer_timed`)
 * unless they are too short; only the calls inside may be counted. See `add_total`.
 *
 * LOST EXITS. longjmp skips exit probes. If a call begins at a stack address above that of the top
 * entry, or at the same address and call site, that entry is dead. This holds only if both
 * addresses are on the thread's own stack, not on a signal or coroutine stack. An exit also closes
 * all entries above its own. `seq` distinguishes a reused entry from the one a guard was made for.
 *
 * SIGNALS. A handler may call instrumented functions at any point. Its probes leave the stack
 * unchanged. While `busy` is set they are dropped and counted as such, unless the holder was left
 * by a jump (repair.c). The inline path must update each counter with one instruction, or a handler
 * that calls the same function can undo some calls. gcc does so from -O2, clang too except for the
 * call counter; unoptimised code does not. */
#include "target/span/span.h"

#include "target/span/entry.h"
#include "target/span/frame.h"
#include "target/span/mode.h"
#include "target/span/onoff.h"
#include "target/span/pace.h"
#include "target/span/pay.h"
#include "target/span/registry.h"
#include "target/span/repair.h"
#include "target/span/run.h"
#include "target/span/times.h"
#include "target/span/toll.h"
#include "target/span/unwatched.h"
#include "target/sys/clock.h"
#include "target/sys/stack.h"

/* Keeps a branch before a clock read, so that the read waits if it was mispredicted. The processor
 * then predicts later branches on the same condition. */
#define known_early(x) __asm__ __volatile__("" : "+r"(x))

enum { RECENT_NS = 10000 };

static void add_pieces(struct piano__slot *slot, const struct piano__entry *e)
{
    slot->now.off_ns += e->piece_off;
    slot->now.runq_ns += e->piece_runq;
    slot->now.checked++;
}

/* Ends the innermost timed call of the calling thread, in E, as of NOW. */
static __attribute__((noinline)) void close_top(struct piano__thread *t, struct piano__entry *e,
                                                int64_t now)
{
    struct piano__slot *slot = &piano__slots(t)[e->slot];
    if (unlikely(e->start > now))
        e->start = now; /* a signal handler jumped away before the call began */
    add_counted(t);
    struct piano__timing m = measure(t, slot, e, now);
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
    if (unlikely(e->piece_off))
        add_pieces(slot, e);
    slot->open--;
    int64_t wall = m.total;
    m.total = add_total(t, slot, e, m.self, m.total);
    t->owner = e->owner;
    t->last_tick = now;
    t->depth--;
    if (unlikely(!t->watched))
        piano__unwatched_add(t, slot, m.self, now);
    if (!piano__mode_pinned) {
        m.spent = spent_on(e, &m);
        piano__mode_timed(t, slot, e, &m, now);
    }
    if (e->flags & PIANO_ENTRY_FRAME)
        piano__frame_end(t, e, wall > 0 ? wall : 0);
}

/* Ends the innermost timed call at NOW, later than its real end because longjmp skipped its exit.
 * Such a call must not serve as a sample. */
static void abandon_top(struct piano__thread *t, int64_t now)
{
    struct piano__entry *e = &piano__entries(t)[t->depth - 1];
    if (e->flags & PIANO_ENTRY_SAMPLED)
        e->flags |= PIANO_ENTRY_WARM;
    close_top(t, e, now);
}

void piano__span_close_all(struct piano__thread *t, int64_t now)
{
    if (t->busy)
        piano__repair(t); /* a signal handler is ending the thread or the program */
    lock(t);
    while (t->depth > 0)
        abandon_top(t, now);
    unlock(t);
}

/* Closes entries that a longjmp skipped. They lie below FROM on the same stack. */
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

/* Does what the inline path does, for a call that took the slow path for another reason. If `left`
 * is 0, raises `given` instead, which counts the same; see `piano__head_left`. */
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

static inline __attribute__((always_inline)) struct piano__entry *
push(struct piano__thread *t, struct piano__slot *slot, struct piano__head *head,
     struct caller from, uint32_t flags)
{
    uint32_t index = t->depth;
    struct piano__entry *e = &piano__entries(t)[index];
    e->start = INT64_MAX; /* not begun: see `send_open_calls` in common/live.c */
    compiler_barrier();
    t->depth = index + 1;
    compiler_barrier();
    e->slot = (uint32_t)(head - piano__heads(t));
    e->flags = flags;
    e->seq = ++t->seq;
    e->stack = from.stack;
    e->site = from.site;
    e->owner = t->owner;
    if (unlikely(index == t->chain) || unlikely(slot->framed && piano__registry_frame_fn()))
        piano__frame_begin(t, e);
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
    e->piece_off = e->piece_runq = 0;
    if (t->looked_depth > index)
        t->looked_depth = index;
    return e;
}

/* A call was timed less than RECENT_NS ago, so the probe is still cached. */
static bool is_recent(const struct piano__thread *t, int64_t now)
{
    return piano__ticks_ns(now - t->last_tick, piano__run.header->ns_per_tick_32) < RECENT_NS;
}

static inline void mark_recursive(struct piano__thread *t, struct piano__slot *slot,
                                  const struct piano__entry *entries)
{
    if (slot->open > 0 && slot->recursive != PIANO_CALLED_BACK)
        slot->recursive = &piano__slots(t)[entries[t->depth - 1].slot] == slot ? PIANO_CALLS_ITSELF
                                                                               : PIANO_CALLED_BACK;
}

/* Returns the entry of a call to be timed; NULL if the call is only counted. */
static struct piano__entry *enter_attached(struct piano__thread *t, struct piano__slot *slot,
                                           struct caller from, int64_t now)
{
    struct piano__entry *entries = piano__entries(t);
    if (unlikely(t->depth > 0 && is_dead(&entries[t->depth - 1], from)))
        drop_dead(t, entries, from);
    if (!slot->in_now)
        piano__frame_touch(t, slot);
    struct piano__head *head = piano__head_of(t, slot);
    if (head->given < 0)
        head->given = 0;
    if (head->left <= 0 && slot->sampling && slot->recursive)
        make_room(head);
    if (head->left <= 0 && slot->resting && !slot->sampling && slot->mode == PIANO_SAMPLED &&
        !(slot->outer_timed && slot->open == 0))
        piano__mode_next_stratum(t, slot);
    bool is_due = head->left <= 0 && !slot->sampling;
    if (is_due && slot->mode == PIANO_SAMPLED && !slot->warm && !is_in_sample(t) &&
        !(slot->outer_timed && slot->open == 0) && is_recent(t, now)) {
        slot->warm = 1; /* no warm-up needed: the next call is the sample */
        return NULL;
    }
    if (!is_due && !is_in_sample(t))
        return NULL;
    if (unlikely(t->depth >= PIANO_MAX_DEPTH)) {
        piano__dropped_add(&piano__run.header->dropped.depth);
        slot->now.calls++; /* here, not in `left`: it must not be sampled */
        slot->now.self += piano__each_self(head->each);
        head->left++;
        return NULL;
    }
    mark_recursive(t, slot, entries);
    uint32_t flags = slot->mode == PIANO_PLAIN ? 0 : PIANO_ENTRY_FENCED;
    if (slot->mode == PIANO_SAMPLED) {
        if (slot->outer_timed && slot->open == 0)
            flags = 0; /* outermost call: timed, but not a sample */
        else if (is_due)
            flags |= PIANO_ENTRY_SAMPLED | (slot->warm ? 0 : PIANO_ENTRY_WARM);
        else
            flags |= PIANO_ENTRY_BELOW;
    }
    return push(t, slot, head, from, flags);
}

/* The begin of almost all calls of a function with every call timed, once its slot is set up. START
 * was read first, so everything here is in the call's window unless the probe measures itself.
 * Returns NULL, with nothing changed, if there is more to do. */
static inline __attribute__((always_inline)) struct piano__entry *
enter_fast(struct piano__thread *t, struct piano__head *head, struct caller from, int64_t start,
           uint32_t flags)
{
    struct piano__slot *slot = &piano__slots(t)[head - piano__heads(t)];
    struct piano__entry *entries = piano__entries(t);
    uint32_t index = t->depth;
    if (unlikely(t->busy || !slot->in_now || index == t->chain || index >= PIANO_MAX_DEPTH ||
                 (index > 0 && is_dead(&entries[index - 1], from))))
        return NULL;
    lock(t);
    add_counted(t);
    mark_recursive(t, slot, entries);
    if (unlikely(slot->toll.seen < PIANO_TOLL_LEARN))
        flags = PIANO_ENTRY_FENCED | PIANO_ENTRY_DRAWN;
    if (unlikely(piano__mode_exact || !piano__toll_is_hot(t, start) || start < t->crowded_until))
        flags = PIANO_ENTRY_FENCED;
    struct piano__entry *e = push(t, slot, head, from, flags);
    unlock_in(t, false);
    return e;
}

/* E is a sample, or fenced directly inside one. A reading would disturb the sample. */
static bool is_of_sample(const struct piano__thread *t, const struct piano__entry *e)
{
    return e->flags & PIANO_ENTRY_SAMPLED ||
           (e->flags & PIANO_ENTRY_FENCED && t->depth > 1 && e[-1].flags & PIANO_ENTRY_SAMPLED);
}

/* Reads CPU time, then restarts the call, which began at CALLED. The reading is overhead in the
 * caller's time. Time off the CPU since BEGAN belongs to the profiler. */
static __attribute__((noinline)) void look_first(struct piano__thread *t, struct piano__entry *e,
                                                 int64_t called, int64_t began)
{
    lock(t);
    if (t->depth > 1)
        piano__onoff_look_piece(t, e - 1, called, began);
    else
        piano__onoff_look(t, began);
    t->looked_depth = t->depth - 1; /* this call begins with what was read just now */
    int64_t start = e->flags & PIANO_ENTRY_FENCED ? piano__ticks_fenced() : piano__ticks();
    t->overhead += (start - e->start) * 256;
    e->overhead = t->overhead;
    e->start = start;
    unlock(t);
}

/* Returns the calling thread, attached and with room for the head at OFFSET; NULL on failure. */
static __attribute__((noinline)) struct piano__thread *attach(uint32_t offset)
{
    if (offset == 0 || !piano__run_start())
        return NULL;
    struct piano__thread *t = piano__thread_attach();
    return t && offset < t->real_limit ? t : NULL;
}

/* A probe's cost depends on caches and branch prediction, so most of it is measured: from the first
 * read to the start of the window, and from its end to the last read. The first read waits for the
 * caller's earlier instructions, which are the caller's time. Frame work and CPU time readings
 * (WORK before) are subtracted: they added themselves. The rest is calibrated. */
static void measure_entry(struct piano__thread *t, struct piano__entry *e, int64_t began)
{
    int64_t took = (e->start - began) * 256 - e->probe;
    t->overhead += took;
    e->overhead += took;
    e->probe = took;
}

static int64_t measure_exit(struct piano__thread *t, int64_t from, int64_t work)
{
    int64_t end = piano__ticks_end();
    if (unlikely(end - from >= piano__onoff_torn))
        end = piano__onoff_after(t, from);
    int64_t took = (end - from) * 256 - (t->frame_work - work);
    t->overhead += took;
    return took;
}

/* While `probing` is set, the watcher gives the time to no function. The store retires after the
 * program's earlier instructions, so the watcher still attributes those to the program. */
static inline __attribute__((always_inline)) void set_probing(struct piano__thread *t, uint64_t on)
{
    __atomic_store_n(&t->probing, on, __ATOMIC_RELAXED);
}

/* The begin of all other calls. Sets *ENTERED to the entry, or to NULL if the call is not timed.
 * Returns the guard. */
static __attribute__((noinline)) void *enter_slow(unsigned offset, struct caller from,
                                                  int64_t began, struct piano__entry **entered)
{
    struct piano__thread *t = piano__self_thread();
    *entered = NULL;
    if (unlikely(offset >= t->real_limit || offset == 0)) {
        t = attach(offset);
        if (!t)
            return (void *)(uintptr_t)piano__self_thread()->owner;
    }
    if (unlikely(t->busy) && !piano__repair_left(t, from.stack)) {
        piano__dropped_add(&piano__run.header->dropped.busy);
        return (void *)(uintptr_t)t->owner;
    }
    int64_t work = t->frame_work;
    struct piano__slot *slot = &piano__slots(t)[piano__head_id(offset)];
    lock(t);
    add_counted(t);
    struct piano__entry *e = enter_attached(t, slot, from, began);
    void *guard = e ? make_guard(e->seq, t->depth - 1) : count(t, piano__head_of(t, slot));
    unlock(t);
    if (e)
        e->probe = t->frame_work - work; /* added itself to the overhead */
    else
        set_probing(t, 0);
    *entered = e;
    return guard;
}

void *__piano_enter(unsigned offset)
{
    struct piano__thread *t = piano__self_thread();
    struct caller from = {(uintptr_t)__builtin_frame_address(0),
                          (uintptr_t)__builtin_return_address(0)};
    set_probing(t, 1);
    struct piano__head *head = (struct piano__head *)(void *)((char *)t + offset);
    bool fast = offset < t->limit && head->given == PIANO_GIVEN_FENCED;
    uint32_t flags = PIANO_ENTRY_FENCED | PIANO_ENTRY_BEGIN_UNMEASURED;
    if (unlikely(fast && --t->unmeasured < 0)) {
        piano__toll_draw(t);
        flags = PIANO_ENTRY_FENCED | PIANO_ENTRY_DRAWN;
        known_early(flags);
    }
    int64_t began = piano__ticks_end();
    struct piano__entry *e = likely(fast) ? enter_fast(t, head, from, began, flags) : NULL;
    void *guard;
    if (likely(e)) {
        guard = make_guard(e->seq, t->depth - 1);
    } else {
        guard = enter_slow(offset, from, began, &e);
        if (!e)
            return guard;
        t = piano__self_thread();
    }
    int64_t due = piano__onoff_due(t, &piano__slots(t)[e->slot]);
    if (likely(e->flags & PIANO_ENTRY_BEGIN_UNMEASURED && began < due)) {
        e->start = began;
        set_probing(t, 0);
        piano__clock_fence(); /* separates the call from the probe */
        return guard;
    }
    e->flags &= ~(uint32_t)PIANO_ENTRY_BEGIN_UNMEASURED;
    e->start = e->flags & PIANO_ENTRY_FENCED ? piano__ticks_fenced() : piano__ticks();
    measure_entry(t, e, began);
    if (unlikely(e->start - began >= piano__onoff_torn))
        look_first(t, e, began, began); /* the probe lost the CPU; the program did not wait */
    else if (unlikely(e->start >= due) && !is_of_sample(t, e))
        look_first(t, e, began, e->start);
    set_probing(t, 0);
    return guard;
}

/* Lets the next probe of the function read the clock before it looks at the slot. Frames have more
 * to do at their begin. */
static void allow_fast(struct piano__slot *slot, struct piano__head *head)
{
    if (slot->mode == PIANO_FENCED && !slot->sampling && head->left == 0 &&
        !(slot->framed && piano__registry_frame_fn()))
        head->given = PIANO_GIVEN_FENCED;
}

/* Ends the innermost timed call, in E, with a probe that measures itself. */
static __attribute__((noinline)) void exit_measured(struct piano__thread *t, struct piano__entry *e,
                                                    int64_t now)
{
    struct piano__slot *slot = &piano__slots(t)[e->slot];
    struct piano__head *head = &piano__heads(t)[e->slot];
    bool typical = e->flags & PIANO_ENTRY_DRAWN && piano__toll_is_hot(t, now);
    int64_t work = t->frame_work;
    close_top(t, e, now);
    if (unlikely(head->given == 0))
        allow_fast(slot, head);
    int64_t took = measure_exit(t, now, work);
    if (typical)
        piano__toll_learn(t, slot, e->probe, took);
    if (e->flags & PIANO_ENTRY_FENCED && (unlikely(piano__pace_is_due(t)) || typical))
        piano__pace_take(t); /* after closing: the caller's time, counted as overhead */
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
    uint32_t flags = e->flags;
    bool fenced = flags & PIANO_ENTRY_FENCED;
    if (unlikely(!(flags & PIANO_ENTRY_BEGIN_UNMEASURED)))
        known_early(flags);
    int64_t now = fenced ? piano__ticks_end() : piano__ticks();
    if (unlikely(!is_guard_of(e, index, bits))) {
        set_probing(t, 0);
        return;
    }
    if (unlikely(t->busy) && !piano__repair_left(t, (uintptr_t)__builtin_frame_address(0)))
        return; /* the interrupted probe clears `probing` */
    lock(t);
    while (unlikely(t->depth > index + 1))
        abandon_top(t, now);
    bool unmeasured =
        likely(flags & PIANO_ENTRY_BEGIN_UNMEASURED) && likely(piano__toll_is_hot(t, now));
    if (likely(unmeasured)) {
        e->flags = flags | PIANO_ENTRY_END_UNMEASURED;
        close_top(t, e, now);
    } else {
        exit_measured(t, e, now);
    }
    unlock_in(t, index > 0 && e[-1].flags & PIANO_ENTRY_SAMPLED);
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
