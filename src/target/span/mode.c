/* Choosing how a function is timed.
 *
 * A fenced pair of clock reads costs about 50 ns here and is right to a nanosecond or two whatever the body; a
 * plain pair costs 15 to 20 ns and may be wrong by 10. So a function starts FENCED; calls of a microsecond and more
 * go PLAIN, where 10 ns no longer matter; and when the probes of one function take more than their share of the
 * thread's time, it is SAMPLED, with a gap that brings them back to that share. A function that is called
 * rarely is therefore timed on every call however short it is, and only what would really slow the program
 * down is not.
 *
 * The share of one function is 1/64 while timed calls of the thread together cost less than 1/1024 of its time, and
 * gets smaller in steps as they cost more, down to 1/8192 above 1/256: so they settle near that, whether it is one busy function or
 * a thousand. What counted calls cost is not in that sum, since timing fewer would not make it less.
 *
 * Windows are 64 timed calls. Samples feed running means that forget half of their past every 128 samples. A
 * sample far above the mean (a stall, a preemption) is charged as measured but kept out of the mean, and sends
 * the function back to FENCED: rare slow calls must not hide among the counted ones. */
#include "target/span/mode.h"

#include <stdlib.h>
#include <string.h>

#include "common/lines.h"
#include "target/span/calibrate.h"
#include "target/span/frame.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/span/span.h"

enum {
    WINDOW = 64,
    SHARE = 64,        /* probes may take 1/SHARE of the time */
    SHORT_NS = 2000,   /* below this a call may be sampled */
    PLAIN_NS = 1000,   /* above this it is timed with the plain clock */
    FENCED_NS = 500,   /* and below this with the fenced one again */
    OUTLIER_NS = 5000, /* and 16 times the mean */
    GAP_MAX = 4096,
    MOST_TICKS = 1 << 18, /* of one counted call: twice GAP_MAX of them fill no half of a word */
    BURST = 3,            /* timed calls after the one that warms up */
    OVERLAP_NS = 8,
    PROOF_NS = 10000,
    BUDGET_NS = 500000,
    PATIENCE_NS = 200000, /* what a function's probes may take before it is sampled at all */
    PATIENCE_FRAME_NS = 2000000,
};

bool piano__mode_pinned;

void piano__mode_init(void)
{
    const char *timing = secure_getenv("PIANO_TIMING");
    piano__mode_pinned = timing && strcmp(timing, "all") == 0;
}

static uint64_t next_random(struct piano__thread *t)
{
    uint64_t x = t->random ? t->random : 0x9e3779b97f4a7c15u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return t->random = x;
}

/* How many calls to count before the next is timed: uniform, so that no rhythm of the program is missed. */
static void draw_gap(struct piano__thread *t, struct piano__slot *slot)
{
    int32_t gap = 1 + (int32_t)(next_random(t) % (2 * slot->gap - 1));
    struct piano__head *head = piano__head_of(t, slot);
    if (slot->outer_timed && slot->open == 0) {
        head->left = head->given = 0;
        slot->left_saved = gap;
    } else {
        head->left = head->given = gap;
    }
}

static void start_window(struct piano__slot *slot, int64_t now)
{
    slot->window_calls = 0;
    slot->window_start = now;
    slot->window_spent = 0;
    slot->outer_total = 0;
    slot->outer_calls = 0;
    slot->window_frames = 0;
}

static void set_mode(struct piano__thread *t, struct piano__slot *slot, enum piano__mode mode,
                     int64_t now)
{
    slot->mode = (uint8_t)mode;
    slot->outer_timed = 0;
    slot->burst = 0;
    piano__head_of(t, slot)->left = piano__head_of(t, slot)->given = slot->left_saved = 0;
    slot->samples = 0;
    slot->sample_self = slot->sample_total = 0;
    start_window(slot, now);
}

/* A fenced sample shows how long a body takes on its own. In a loop the processor works on its surroundings at the
 * same time, so a tiny body adds less than that. How much less depends on the program, and only callers can tell: one
 * whose self time comes out below zero proves that the estimates of what it called were too high by that. The part
 * of short estimates that is taken off on this thread follows such proofs quickly and forgets them slowly. */
void piano__mode_reconcile(struct piano__thread *t, int64_t self, int64_t counted)
{
    if (piano__ticks_ns(counted, piano__run.header->ns_per_tick_32) < PROOF_NS)
        return;
    int64_t excess = -self - counted / 8; /* an eighth may be noise */
    if (excess > 0)
        t->overlap += (4096 - t->overlap) * excess / counted / 4;
    else
        t->overlap -= t->overlap / 256;
    if (t->overlap > 3 * 1024)
        t->overlap = 3 * 1024;
}

/* All of a body can hide up to half of OVERLAP_NS, nothing of one that is longer than OVERLAP_NS. */
static int64_t without_overlap(const struct piano__thread *t, int64_t self)
{
    int64_t limit = ((int64_t)OVERLAP_NS << 32) / (int64_t)piano__run.header->ns_per_tick_32;
    int64_t hides = self <= limit / 2 ? self : self < limit ? limit - self : 0;
    return self - hides * t->overlap / 4096;
}

static void set_estimates(struct piano__thread *t, struct piano__slot *slot)
{
    const struct piano__bias *bias = &piano__run.header->bias;
    struct piano__head *head = piano__head_of(t, slot);
    int64_t self = slot->sample_self / slot->samples;
    int64_t total = slot->sample_total / slot->samples;
    int64_t alone = self > 0 ? self : 0;
    int64_t estimate = without_overlap(t, alone);
    if (estimate > MOST_TICKS)
        estimate = MOST_TICKS;
    int64_t cost = piano__curve_value(slot->recursive ? bias->recursing : bias->counted,
                                      piano__curve_place(bias->body, 256 * self));
    head->each = piano__each(estimate, cost);
    total -= alone - estimate; /* what hides in a body hides in all of the call */
    slot->total_estimate = total > 0 && !slot->outer_timed ? total : 0;
}

static void begin_sampling(struct piano__thread *t, struct piano__slot *slot, int64_t gap,
                           int64_t now)
{
    int64_t outer_ns = piano__ticks_ns(slot->outer_total, piano__run.header->ns_per_tick_32);
    slot->outer_timed = slot->recursive && outer_ns >= (int64_t)slot->outer_calls * SHORT_NS;
    set_estimates(t, slot);
    slot->mode = PIANO_SAMPLED;
    slot->gap = gap < 2 ? 2 : gap > GAP_MAX ? GAP_MAX : (uint32_t)gap;
    start_window(slot, now);
    if (!slot->in_sampled) {
        slot->in_sampled = 1;
        slot->next_sampled = t->sampled_list;
        t->sampled_list = (uint32_t)(slot - piano__slots(t)) + 1;
    }
    draw_gap(t, slot);
    if (slot->framed)
        piano__frame_demote(t, slot);
}

/* How small a part of the time one function's probes may take now. */
static int64_t share_of_time(struct piano__thread *t, int64_t now)
{
    int64_t elapsed = now - t->budget_tick;
    if (t->share == 0)
        t->share = SHARE;
    if (piano__ticks_ns(elapsed, piano__run.header->ns_per_tick_32) < BUDGET_NS)
        return t->share;
    int64_t spent = t->budget_spent / 256;
    t->share = spent * 1024 < elapsed  ? SHARE
               : spent * 512 < elapsed ? 4 * SHARE
               : spent * 256 < elapsed ? 16 * SHARE
                                       : 128 * SHARE;
    t->budget_tick = now;
    t->budget_spent = 0;
    return t->share;
}

/* A window of calls that were all timed is full. */
static void judge_timed(struct piano__thread *t, struct piano__slot *slot, int64_t now)
{
    int64_t share = share_of_time(t, now);
    int64_t spent = slot->window_spent / 256;
    int64_t elapsed = now - slot->window_start;
    int64_t mean_ns =
        piano__ticks_ns(slot->sample_total, piano__run.header->ns_per_tick_32) / WINDOW;
    bool chosen_frame = slot->framed && piano__registry_frame_fn();
    int64_t spent_ns = piano__ticks_ns(slot->spent / 256, piano__run.header->ns_per_tick_32);
    if (mean_ns < SHORT_NS && spent * share > elapsed &&
        spent_ns > (2 * slot->window_frames >= WINDOW ? PATIENCE_FRAME_NS : PATIENCE_NS) &&
        !chosen_frame) {
        begin_sampling(t, slot, spent * share / (elapsed > 0 ? elapsed : 1), now);
        return;
    }
    if (slot->mode == PIANO_FENCED && mean_ns > PLAIN_NS)
        slot->mode = PIANO_PLAIN;
    else if (slot->mode == PIANO_PLAIN && mean_ns < FENCED_NS)
        slot->mode = PIANO_FENCED;
    slot->samples = 0;
    slot->sample_self = slot->sample_total = 0;
    start_window(slot, now);
}

/* A window of samples is full: adapt the gap to the rate of calls. */
static void judge_sampled(struct piano__thread *t, struct piano__slot *slot, int64_t now)
{
    int64_t share = share_of_time(t, now);
    int64_t spent = slot->window_spent / 256;
    int64_t elapsed = now - slot->window_start;
    if (spent * share > elapsed)
        slot->gap = slot->gap < GAP_MAX / 4 ? slot->gap * 4 : GAP_MAX;
    else if (spent * share * 4 < elapsed && slot->gap > 1)
        slot->gap /= 2;
    start_window(slot, now);
}

bool piano__mode_is_outlier(struct piano__thread *t, const struct piano__slot *slot, int64_t self)
{
    int64_t beyond = self - 16 * piano__each_self(piano__head_of(t, slot)->each);
    return piano__ticks_ns(beyond, piano__run.header->ns_per_tick_32) > OUTLIER_NS;
}

static void learn(struct piano__thread *t, struct piano__slot *slot, int64_t self, int64_t total)
{
    slot->sample_self += self;
    slot->sample_total += total;
    if (++slot->samples >= 2 * WINDOW) {
        slot->samples /= 2;
        slot->sample_self /= 2;
        slot->sample_total /= 2;
    }
    set_estimates(t, slot);
}

static void take_sample(struct piano__thread *t, struct piano__slot *slot,
                        const struct piano__entry *entry, int64_t self, int64_t total, int64_t now)
{
    int64_t below = piano__span_calls_below(t, slot, entry);
    if (piano__mode_is_outlier(t, slot, self)) {
        set_mode(t, slot, PIANO_FENCED, now);
        return;
    }
    bool warm = slot->burst > 0;
    slot->burst = warm ? slot->burst - 1 : BURST;
    if (warm && below <= PIANO_TEACHING_CALLS &&
        !piano__mode_is_outlier(t, slot, total - slot->total_estimate))
        learn(t, slot, self, total);
    if (++slot->window_calls >= WINDOW)
        judge_sampled(t, slot, now);
    if (slot->gap < 2)
        set_mode(t, slot, PIANO_FENCED, now);
    else if (slot->burst == 0)
        draw_gap(t, slot);
}

/* The next call is timed, unless a gap is drawn. */
static void end_sample(struct piano__thread *t, struct piano__slot *slot)
{
    struct piano__head *head = piano__head_of(t, slot);
    piano__frame_settle(t, slot);
    head->given = 0; /* first: see `make_room` */
    __asm__ __volatile__("" ::: "memory");
    head->left = 0;
    slot->sampling = 0;
}

void piano__mode_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__entry *entry, int64_t self, int64_t total, int64_t now,
                       int64_t spent)
{
    if (piano__mode_pinned)
        return;
    slot->window_spent += spent;
    slot->spent += spent;
    t->budget_spent += spent;
    if (entry->flags & PIANO_ENTRY_SAMPLED) {
        end_sample(t, slot);
        if (slot->mode == PIANO_SAMPLED)
            take_sample(t, slot, entry, self, total, now);
    } else if (slot->mode != PIANO_SAMPLED) {
        if (slot->window_calls == 0)
            slot->window_start = now - total;
        slot->samples++;
        slot->sample_self += self;
        slot->sample_total += total;
        if (slot->open == 0) {
            slot->outer_total += total;
            slot->outer_calls++;
        }
        if (++slot->window_calls >= WINDOW)
            judge_timed(t, slot, now);
    }
}
