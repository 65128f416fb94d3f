/* Frames and lines.
 *
 * WHICH CALLS. Each call of the outermost instrumented function is a frame. At the start it is
 * unknown whether that is `update`, called once per turn, or `main`, which encloses the loop. So
 * below the first call of a function at a level, the calls one level deeper are frames too, and so
 * on. `chain` is the number of enclosing calls that are all first ones; a timed call at that depth
 * is a frame. The reader chooses the level (docs/frames.md). With `--frame FN`, only calls of FN
 * are.
 *
 * A sampled function is never a frame. A function that was one is announced as demoted.
 *
 * LINES. A line holds only what no earlier line of its thread held. When a frame begins, the
 * content of `now` moves to `kept`, which belongs to the enclosing level `kept_depth`. When the
 * frame ends, `now` becomes its line, with `kept` if that belongs to this frame.
 *
 * BOUNDS. Each thread has a token bucket of bytes for frame lines, refilled at BYTES_PER_SECOND.
 * Spikes may overdraw it by SPIKE_CREDIT. Below the outermost level the number of lines is limited
 * too, more strictly at deeper levels, where most lines turn out not to be frames. A frame without
 * tokens is merged: it is counted, its times go into histograms (merged.h), its work stays in
 * `kept`. Past MAX_FILE_BYTES all frames are merged. So the file size is bounded. */
#include "target/span/frame.h"

#include <string.h>

#include "target/span/commit.h"
#include "target/span/frame_lines.h"
#include "target/span/merged.h"
#include "target/span/mode.h"
#include "target/span/onoff.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/sys/clock.h"

enum {
    BYTES_PER_SECOND = 1 << 20,
    DEEP_PER_SECOND = 20000,
    SPIKE_CREDIT = 2 << 20,
    MEDIAN_EVERY = 64,
    FLUSH_BYTES = 48 * 1024,
    FLUSH_MS = 250,
};

static const uint64_t MAX_FILE_BYTES = (uint64_t)256 << 20;

static uint64_t scale(void)
{
    return piano__run.header->ns_per_tick_32;
}

/* Readers must see a tally replaced in one step: while `moving` is set, they use `moved`. Only a
 * reader after a kill reads it, so no partner but rule 5 of docs/memory-order.md. */
static void begin_move(struct piano__thread *t, uint32_t moving)
{
    __atomic_store_n(&t->moving, moving, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void end_move(struct piano__thread *t)
{
    __atomic_store_n(&t->moving, 0, __ATOMIC_RELEASE); /* rule 5 */
}

void piano__frame_touch(struct piano__thread *t, struct piano__slot *slot)
{
    uint32_t id = piano__slot_id(t, slot);
    slot->in_now = 1;
    slot->next_now = t->now_list;
    t->now_list = id + 1;
    if (piano__registry_frame_fn())
        slot->framed = piano__registry_get(id)->flags & 1;
}

void piano__frame_settle(struct piano__thread *t, struct piano__slot *slot)
{
    struct piano__head *head = piano__head_of(t, slot);
    int64_t pending = piano__head_pending(head);
    struct piano__tally *now = &t->moved;
    *now = slot->now;
    now->calls += pending;
    now->self += pending * piano__each_self(head->each);
    now->raw += pending * piano__each_self(head->each);
    now->total += pending * slot->total_price;
    begin_move(t, 2 * (piano__slot_id(t, slot) + 1));
    slot->now = *now;
    head->given = piano__head_left(head);
    end_move(t);
}

static void release_now(struct piano__slot *slot)
{
    slot->now = (struct piano__tally){0};
    slot->in_now = 0;
}

/* Adds the profiler's own work since BEGAN to the overhead. */
static void add_work(struct piano__thread *t, int64_t began)
{
    int64_t took = (piano__onoff_after(t, began) - began) * 256;
    t->overhead += took;
    t->frame_work += took;
}

/* Adds what the watcher has seen of the function since the last call. */
static void take_looks(struct piano__slot *slot)
{
    int64_t looked = __atomic_load_n(&slot->looked, __ATOMIC_RELAXED);
    slot->now.looked += looked - slot->looked_seen;
    slot->looked_seen = looked;
    int64_t held = __atomic_load_n(&slot->held, __ATOMIC_RELAXED);
    slot->now.held += held - slot->held_seen;
    slot->held_seen = held;
    double variance;
    __atomic_load(&slot->looked_var, &variance, __ATOMIC_RELAXED);
    slot->now.looked_var += variance - slot->looked_var_seen;
    slot->looked_var_seen = variance;
}

/* The inline path leaves only its counter, so check all functions that use it. */
static void settle_sampled(struct piano__thread *t)
{
    for (uint32_t link = t->sampled_list; link; link = piano__slot_at(t, link)->next_sampled) {
        struct piano__slot *slot = piano__slot_at(t, link);
        if (piano__head_pending(piano__head_of(t, slot)) == 0)
            continue;
        if (!slot->in_now)
            piano__frame_touch(t, slot);
        piano__frame_settle(t, slot);
    }
}

/* Ends the frame for each function in it. Returns the number of sampled functions. */
static uint32_t end_frame_of_slots(struct piano__thread *t, int64_t wall)
{
    uint32_t sampled = 0;
    for (uint32_t link = t->now_list; link; link = piano__slot_at(t, link)->next_now) {
        struct piano__slot *slot = piano__slot_at(t, link);
        take_looks(slot);
        if (slot->in_sampled)
            piano__mode_frame_ended(t, slot, wall);
        sampled += slot->mode == PIANO_SAMPLED;
    }
    return sampled;
}

static void sum_and_clear(struct piano__thread *t, bool now, bool kept)
{
    for (uint32_t link = now ? t->now_list : 0; link;) {
        struct piano__slot *slot = piano__slot_at(t, link);
        piano__run_sum(link - 1, &slot->now);
        link = slot->next_now;
        release_now(slot);
    }
    for (uint32_t link = kept ? t->kept_list : 0; link;) {
        struct piano__slot *slot = piano__slot_at(t, link);
        piano__run_sum(link - 1, &slot->kept);
        link = slot->next_kept;
        slot->kept = (struct piano__tally){0};
        slot->in_kept = 0;
    }
    if (now)
        t->now_list = 0;
    if (kept)
        t->kept_list = 0;
    __atomic_store_n(&t->clearing, 0, __ATOMIC_RELEASE); /* rule 5 */
}

static void write_kept(struct piano__thread *t, int64_t now)
{
    if (t->kept_list == 0)
        return;
    piano__commit_line(t, piano__put_kept, NULL, PIANO_CLEAR_KEPT, now);
    sum_and_clear(t, false, true);
}

/* Moves `now` to `kept`, which then belongs to the level DEPTH. */
static void set_aside(struct piano__thread *t, int32_t depth, int64_t now)
{
    if (t->kept_list && t->kept_depth != depth)
        write_kept(t, now);
    t->kept_depth = depth;
    settle_sampled(t);
    for (uint32_t link = t->now_list; link;) {
        struct piano__slot *slot = piano__slot_at(t, link);
        take_looks(slot);
        t->moved = slot->kept;
        piano__tally_add(&t->moved, &slot->now);
        begin_move(t, 2 * link + 1);
        slot->kept = t->moved;
        if (!slot->in_kept && !piano__tally_is_empty(&slot->now)) {
            slot->in_kept = 1;
            slot->next_kept = t->kept_list;
            t->kept_list = link;
        }
        link = slot->next_now;
        release_now(slot);
        end_move(t);
    }
    t->now_list = 0;
}

static int32_t enclosing_frame(struct piano__thread *t, uint32_t index)
{
    const struct piano__entry *entries = piano__entries(t);
    for (uint32_t i = index; i > 0; i--)
        if (entries[i - 1].flags & PIANO_ENTRY_FRAME)
            return (int32_t)(i - 1);
    return -1;
}

static bool is_frame(struct piano__thread *t, const struct piano__slot *slot,
                     const struct piano__entry *entry, uint32_t index)
{
    if (slot->open > 0)
        return false; /* a recursive call is part of the frame of the outermost one */
    if (piano__registry_frame_fn())
        return slot->framed;
    return index == t->chain && index < PIANO_MAX_LEVEL && slot->mode != PIANO_SAMPLED &&
           !(entry->flags & PIANO_ENTRY_SAMPLED);
}

void piano__frame_begin(struct piano__thread *t, struct piano__entry *entry)
{
    struct piano__slot *slot = &piano__slots(t)[entry->slot];
    uint32_t index = t->depth - 1;
    if (!is_frame(t, slot, entry, index) || !piano__commit_begin(t))
        return;
    int64_t began = piano__ticks();
    set_aside(t, enclosing_frame(t, index), began);
    piano__frame_touch(t, slot);
    entry->flags |= PIANO_ENTRY_FRAME;
    if (!slot->was_first && !piano__registry_frame_fn()) {
        slot->was_first = 1;
        entry->flags |= PIANO_ENTRY_FIRST;
        t->chain = index + 1;
    }
    piano__commit_end(t);
    add_work(t, began);
}

static void see_wall(struct piano__thread *t, unsigned bucket)
{
    if (t->walls_seen == UINT32_MAX)
        return;
    t->walls[bucket]++;
    if (++t->walls_seen % MEDIAN_EVERY != 0)
        return;
    uint64_t below = 0;
    for (unsigned i = 0; i < PIANO_HIST_BUCKETS; i++) {
        below += t->walls[i];
        if (2 * below >= t->walls_seen) {
            t->median_wall = (int64_t)piano__hist_floor(i + 1);
            return;
        }
    }
}

static void refill(int64_t *bucket, int64_t fresh, int64_t most)
{
    *bucket = *bucket + fresh < most ? *bucket + fresh : most;
}

/* Returns the tokens that lines at DEPTH must leave to shallower lines, which are more likely to be
 * the frames. A first call with thousands of calls in it must not use up the loop's lines. */
static int64_t deep_reserve(int32_t depth)
{
    return PIANO_FIRST_DEEP - (PIANO_FIRST_DEEP >> (depth < 8 ? depth - 1 : 7));
}

static bool may_write_line(struct piano__thread *t, const struct piano__frame_line *f,
                           int64_t wall_ns, int64_t now)
{
    if (__atomic_load_n(&piano__run.file_bytes, __ATOMIC_RELAXED) > MAX_FILE_BYTES)
        return false;
    int64_t since_us = piano__ticks_ns(now - t->token_tick, scale()) / 1000;
    if (since_us >= 1000) {
        refill(&t->tokens, since_us * (BYTES_PER_SECOND / 1000) / 1000, PIANO_FIRST_BYTES);
        refill(&t->deep_tokens, since_us * (DEEP_PER_SECOND / 1000) / 1000, PIANO_FIRST_DEEP);
        t->token_tick = now;
    }
    bool spike = t->median_wall > 0 && wall_ns > 2 * t->median_wall;
    if (f->depth > (spike ? 1 : 0)) {
        if (t->deep_tokens <= deep_reserve(f->depth))
            return false;
        t->deep_tokens--;
    }
    return t->tokens > (spike ? -SPIKE_CREDIT : 0);
}

/* Adds the self times of the functions of frame F to the histograms of ENTRY. */
static void merge_selves(struct piano__thread *t, struct piano__merged_root *entry,
                         const struct piano__frame_line *f, int64_t now)
{
    for (uint32_t link = t->now_list; link; link = piano__slot_at(t, link)->next_now) {
        const struct piano__slot *slot = piano__slot_at(t, link);
        bool both = f->with_kept && slot->in_kept;
        int64_t self = slot->now.self + (both ? slot->kept.self : 0);
        if (slot->now.calls + (both ? slot->kept.calls : 0) > 0)
            piano__merged_self(t, entry, link - 1, piano__ticks_ns(self, scale()), now);
    }
    for (uint32_t link = f->with_kept ? t->kept_list : 0; link;
         link = piano__slot_at(t, link)->next_kept) {
        const struct piano__slot *slot = piano__slot_at(t, link);
        if (!slot->in_now && slot->kept.calls > 0)
            piano__merged_self(t, entry, link - 1, piano__ticks_ns(slot->kept.self, scale()), now);
    }
}

static void merge_frame(struct piano__thread *t, const struct piano__frame_line *f, int64_t now)
{
    bool may_write = t->tokens > 0 &&
                     __atomic_load_n(&piano__run.file_bytes, __ATOMIC_RELAXED) <= MAX_FILE_BYTES;
    struct piano__merged_root *entry =
        piano__merged_entry(t, f->root, f->depth, f->under, may_write, now);
    piano__merged_add(t, entry, f->wall, now);
    piano__merged_onoff(entry, f->wall, f->onoff);
    merge_selves(t, entry, f, now);
    if (f->with_kept)
        t->kept_depth = f->outer;
    set_aside(t, f->outer, now);
}

void piano__frame_end(struct piano__thread *t, struct piano__entry *entry, int64_t wall)
{
    int64_t began = t->last_tick;
    uint32_t index = t->depth;
    if (!piano__commit_begin(t))
        return;
    struct piano__slot *slot = &piano__slots(t)[entry->slot];
    struct piano__frame_line f = {.start = entry->start,
                                  .wall = wall,
                                  .took = began - entry->start,
                                  .over = entry->overhead,
                                  .root = entry->slot,
                                  .depth = (int32_t)index};
    f.under = index > 0 ? (int32_t)entry[-1].slot : -1;
    f.outer = enclosing_frame(t, index);
    f.with_kept = t->kept_list && t->kept_depth >= (int32_t)index;
    int64_t wall_ns = wall > 0 ? piano__ticks_ns(wall, scale()) : 0;
    unsigned bucket = piano__hist_bucket((uint64_t)wall_ns);
    f.onoff = piano__onoff_frame(t, entry, f.took, wall_ns);

    if (slot->framed)
        __atomic_store_n(&piano__run.repeated, true, __ATOMIC_RELAXED);
    slot->framed = 1;
    slot->window_frames++;
    t->frames++;
    see_wall(t, bucket);
    if (entry->flags & PIANO_ENTRY_FIRST)
        t->chain = index;
    settle_sampled(t);
    piano__mode_frame(t, end_frame_of_slots(t, wall));
    if (may_write_line(t, &f, wall_ns, began)) {
        f.number = __atomic_fetch_add(&piano__run.frame_numbers, 1, __ATOMIC_RELAXED);
        uint32_t length = piano__commit_line(
            t, piano__put_frame, &f, PIANO_CLEAR_NOW | (f.with_kept ? PIANO_CLEAR_KEPT : 0), began);
        t->tokens -= length;
        if (length > 0)
            sum_and_clear(t, true, f.with_kept);
        else
            merge_frame(t, &f, began);
    } else {
        merge_frame(t, &f, began);
    }
    if (t->text_len > FLUSH_BYTES ||
        piano__ticks_ns(began - t->last_flush, scale()) > FLUSH_MS * 1000000LL)
        piano__commit_flush(t, began);
    piano__commit_end(t);
    add_work(t, began);
}

void piano__frame_demote(struct piano__thread *t, struct piano__slot *slot)
{
    uintptr_t before = piano__hold(t);
    if (piano__commit_begin(t)) {
        piano__commit_line(t, piano__put_demoted, slot, 0, t->last_tick);
        piano__commit_end(t);
    }
    slot->framed = 0;
    piano__let_go(t, before);
}

void piano__frame_announce(struct piano__thread *t, int64_t now)
{
    static const int64_t running = -1;
    uintptr_t before = piano__hold(t);
    if (piano__commit_begin(t)) {
        piano__commit_line(t, piano__put_thread, &running, 0, now);
        piano__commit_end(t);
    }
    piano__let_go(t, before);
}

void piano__frame_finish(struct piano__thread *t, int64_t now)
{
    uintptr_t before = piano__hold(t);
    if (piano__commit_begin(t)) {
        set_aside(t, -1, now);
        write_kept(t, now);
        piano__merged_write(t, now);
        piano__onoff_detach(t);
        piano__commit_line(t, piano__put_thread, &now, 0, now);
        piano__commit_flush(t, now);
        piano__commit_end(t);
    }
    piano__let_go(t, before);
}

void piano__frame_repair_move(struct piano__thread *t)
{
    if (t->moving == 0 || t->moving / 2 > piano__capacity)
        return;
    struct piano__slot *slot = piano__slot_at(t, t->moving / 2);
    if (t->moving % 2) {
        slot->kept = t->moved;
        slot->now = (struct piano__tally){0};
    } else {
        slot->now = t->moved;
        piano__head_of(t, slot)->given = piano__head_left(piano__head_of(t, slot));
    }
    end_move(t);
}

void piano__frame_repair(struct piano__thread *t)
{
    uint32_t clearing = t->clearing;
    if (clearing & (PIANO_CLEAR_MERGED | PIANO_CLEAR_MERGED_FN))
        piano__merged_repair(t, clearing);
    else if (clearing)
        sum_and_clear(t, clearing & PIANO_CLEAR_NOW, clearing & PIANO_CLEAR_KEPT);
    piano__commit_end(t);
}
