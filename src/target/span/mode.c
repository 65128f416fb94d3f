/* Chooses how a function is timed and what a sample stands for.
 *
 * MODES. A fenced pair of clock reads is accurate to 1 or 2 ns around any body. A plain pair is
 * cheaper and can be off by 10 ns. So a function starts FENCED and becomes PLAIN when its calls
 * take more than a microsecond. When the probes of a function take more than their share of the
 * thread's time, it is SAMPLED, unless its calls are so long or vary so much that nearly all would
 * be timed anyway.
 *
 * THE ESTIMATE. The calls of a SAMPLED function are divided into strata. In each stratum one call,
 * drawn at random, is timed; the others are counted. So whether a call is timed depends neither on
 * its cost nor on its position in a frame or a rhythm. Each counted call is charged a price: the
 * mean of recent samples, constant within a stratum. When the timed call cost C, the function and
 * the thread's `correction` get
 *
 *     (C - price) x other calls of the stratum
 *
 * This is a difference estimator: the sums are right on average whatever the price was and however
 * costs change. A wrong price adds variance, not bias. The squares of the corrections add up to the
 * variance of the sum. The correction stays inside the timed call that encloses the sample, whose
 * self time is the remainder. A function with several strata per frame begins a new stratum with
 * each frame (`piano__mode_frame_ended`), so no correction is for calls of another frame.
 *
 * The call before the timed one is timed too, to warm up the probe, and charged like a counted
 * call. If the thread timed a call within the last 10 us, it is only counted.
 *
 * A call longer than `piano__mode_long` is charged as measured and not multiplied: the watcher
 * (watch.c) sees every such call, timed or not. This also keeps preemptions out of the estimates.
 *
 * stratum.c chooses the size of a stratum. */
#include "target/span/mode.h"

#include <stdlib.h>
#include <string.h>

#include "common/lines.h"
#include "target/span/calibrate.h"
#include "target/span/frame.h"
#include "target/span/pay.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/span/span.h"
#include "target/span/stratum.h"
#include "target/span/watch.h"

enum {
    WINDOW = 64,
    SHORT_NS = 8000, /* only calls shorter than this may be sampled */
    OUTER_NS = 2000, /* time all outermost calls of a recursive function that are longer */
    PLAIN_NS = 1000, /* use the plain clock above this */
    FENCED_NS = 500, /* use the fenced clock below this */
    MOST_TICKS =
        1 << 18, /* of one counted call: twice PIANO_STRATUM_MOST of them fit in half a word */
    MEMORY = 64, /* samples in a price */
    PATIENCE_NS = 200000, /* probe time of a function before it may be sampled */
    PATIENCE_FRAME_NS = 2000000,
};

bool piano__mode_pinned;
bool piano__mode_exact;

static double square(double x)
{
    return x * x;
}

void piano__mode_init(void)
{
    const char *timing = secure_getenv("PIANO_TIMING");
    piano__mode_exact = timing && strcmp(timing, "all") == 0;
    piano__mode_pinned = piano__mode_exact;
}

static int64_t ns_of(int64_t ticks)
{
    return piano__ticks_ns(ticks, piano__run.header->ns_per_tick_32);
}

int64_t piano__mode_long(void)
{
    return 2 * piano__watch_ticks;
}

static void set_left(struct piano__thread *t, struct piano__slot *slot, int32_t left)
{
    struct piano__head *head = piano__head_of(t, slot);
    if (slot->outer_timed && slot->open == 0) {
        head->left = head->given = 0;
        slot->left_saved = left;
    } else {
        head->left = head->given = left;
    }
}

/* Draws the call to time. A uniform draw cannot lock on to a rhythm of the program. The first call
 * of a stratum has no call before it to warm up the probe. */
static void draw_call(struct piano__thread *t, struct piano__slot *slot)
{
    int32_t calls = (int32_t)slot->stratum;
    int32_t at = (int32_t)(piano__thread_random(t) % slot->stratum);
    slot->warm = at == 0;
    slot->resting = 0;
    slot->rest = calls - 1 - at;
    set_left(t, slot, at > 0 ? at - 1 : 0);
}

static void start_window(struct piano__slot *slot, int64_t now)
{
    slot->window_calls = 0;
    slot->window_start = now;
    slot->window_spent = 0;
    slot->outer_total = 0;
    slot->outer_calls = 0;
    slot->window_frames = 0;
    slot->sample_self = slot->sample_total = 0;
    slot->samples = 0;
}

static void start_timing(struct piano__thread *t, struct piano__slot *slot, int64_t now)
{
    slot->mode = PIANO_FENCED;
    slot->outer_timed = 0;
    piano__head_of(t, slot)->each = 0;
    piano__head_of(t, slot)->left = piano__head_of(t, slot)->given = slot->left_saved = 0;
    start_window(slot, now);
}

static void set_price(struct piano__thread *t, struct piano__slot *slot)
{
    const struct piano__bias *bias = &piano__run.header->bias;
    int64_t self = (slot->sample_self + slot->samples / 2) / slot->samples;
    int64_t total = (slot->sample_total + slot->samples / 2) / slot->samples;
    int64_t price = self < 0 ? 0 : self > MOST_TICKS ? MOST_TICKS : self;
    int64_t cost = piano__curve_value(slot->recursive ? bias->recursing : bias->counted,
                                      piano__curve_place(bias->body, 256 * self));
    piano__head_of(t, slot)->each = piano__each(price, cost);
    slot->total_price = total > 0 && !slot->outer_timed ? total : 0;
}

static void begin_sampling(struct piano__thread *t, struct piano__slot *slot, int64_t stratum,
                           int64_t now)
{
    int64_t outer_ns = ns_of(slot->outer_total);
    slot->outer_timed = slot->recursive && outer_ns >= (int64_t)slot->outer_calls * OUTER_NS;
    set_price(t, slot);
    slot->mode = PIANO_SAMPLED;
    slot->stratum = (uint32_t)stratum;
    slot->window_start = now;
    if (!slot->in_sampled) {
        slot->in_sampled = 1;
        slot->next_sampled = t->sampled_list;
        t->sampled_list = (uint32_t)(slot - piano__slots(t)) + 1;
    }
    draw_call(t, slot);
    piano__watch_begin();
    if (slot->framed)
        piano__frame_demote(t, slot);
}

static void set_clock(struct piano__thread *t, struct piano__slot *slot, uint8_t mode)
{
    slot->mode = mode;
    piano__head_of(t, slot)->given = 0;
}

/* Called when a window of timed calls is full. */
static void judge_timed(struct piano__thread *t, struct piano__slot *slot, int64_t now)
{
    int64_t share = piano__stratum_share(t, now);
    int64_t spent = slot->window_spent / 256;
    int64_t elapsed = now - slot->window_start;
    int64_t mean_ns = ns_of(slot->sample_total) / WINDOW;
    bool chosen_frame = slot->framed && piano__registry_frame_fn();
    int64_t patience = 2 * slot->window_frames >= WINDOW ? PATIENCE_FRAME_NS : PATIENCE_NS;
    if (mean_ns < SHORT_NS && spent * share > elapsed && ns_of(slot->spent / 256) > patience &&
        !chosen_frame) {
        struct piano__rate rate = {WINDOW, ns_of(elapsed)};
        int64_t stratum = piano__stratum_choose(t, slot, rate, now);
        if (stratum >= 2 * PIANO_STRATUM_LEAST) {
            begin_sampling(t, slot, stratum, now);
            return;
        }
    }
    if (slot->mode == PIANO_FENCED && mean_ns > PLAIN_NS)
        set_clock(t, slot, PIANO_PLAIN);
    else if (slot->mode == PIANO_PLAIN && mean_ns < FENCED_NS)
        set_clock(t, slot, PIANO_FENCED);
    start_window(slot, now);
}

/* Returns the innermost timed call that is not a sample. */
static struct piano__entry *timed_caller(struct piano__thread *t)
{
    for (uint32_t i = t->depth; i > 0; i--) {
        struct piano__entry *e = &piano__entries(t)[i - 1];
        if (!(e->flags & (PIANO_ENTRY_SAMPLED | PIANO_ENTRY_BELOW)))
            return e;
    }
    return NULL;
}

/* Returns the self time of CALLER so far, in ticks. */
static int64_t callers_own(const struct piano__thread *t, const struct piano__entry *caller,
                           int64_t now)
{
    return now - caller->start - (t->overhead - caller->overhead) / 256 -
           (t->attributed - caller->attributed) - (t->correction - caller->correction);
}

/* Corrects the price of the other calls of the stratum when the timed one took SELF. The correction
 * is limited to OWN so that the caller's self time stays positive. The excess is kept in `debt` for
 * the next sample, because on average half of the stratum is still to come. */
static int64_t correct_usual(struct piano__slot *slot, int64_t self, int64_t price, int64_t own)
{
    int64_t others = slot->stratum - 1, sum = (self - price) * others + slot->debt;
    own = own > 0 ? own : 0;
    if (sum <= own) {
        slot->debt = 0;
        return sum;
    }
    int64_t debt = sum - own, limit = self * others;
    slot->debt = debt < limit ? debt : limit;
    return own;
}

/* Returns the correction, in ticks, that a sample of SELF ticks implies for the rest of its
 * stratum. */
static int64_t correct_self(struct piano__slot *slot, const struct piano__entry *caller,
                            int64_t self, int64_t price, int64_t own)
{
    bool rare = piano__stratum_is_rare(self, price);
    if (slot->rare_square == 0)
        piano__pay_reserve(slot, price);
    if (rare && slot->rare_square == 0)
        return 0;
    bool in_piece = rare && caller && caller->own > 0;
    return correct_usual(slot, self, price, in_piece ? own - caller->own : own);
}

static void correct(struct piano__thread *t, struct piano__slot *slot,
                    const struct piano__timing *m, int64_t now)
{
    int64_t price = piano__each_self(piano__head_of(t, slot)->each);
    struct piano__entry *caller = timed_caller(t);
    int64_t own = caller ? callers_own(t, caller, now) : INT64_MAX / 2;
    int64_t self = correct_self(slot, caller, m->self, price, own);
    int64_t total = self; /* differs for a function that calls others */
    if (m->total != m->self)
        total = (m->total - slot->total_price) * (slot->stratum - 1);
    slot->now.self += self;
    slot->now.raw += self;
    slot->now.self_var += square((double)self);
    t->correction += self;
    t->variance += square((double)self);
    if (!slot->outer_timed) {
        slot->now.total += total;
        slot->now.total_var += square((double)total);
    }
    if (caller) {
        caller->noise = self < 0 ? -self : self;
        struct piano__paid paid = piano__pay_sample(t, slot, caller, own - self, now);
        t->correction += paid.ticks;
        t->variance += paid.variance;
    }
}

static void learn(struct piano__slot *slot, const struct piano__timing *m)
{
    slot->sample_self += m->self;
    slot->sample_total += m->total;
    if (++slot->samples >= MEMORY) {
        slot->samples /= 2;
        slot->sample_self /= 2;
        slot->sample_total /= 2;
    }
}

void piano__mode_next_stratum(struct piano__thread *t, struct piano__slot *slot)
{
    piano__frame_settle(t, slot);
    if (slot->samples > 0)
        set_price(t, slot);
    draw_call(t, slot);
}

/* Called when the drawn call of the stratum has been timed. */
static void take_sample(struct piano__thread *t, struct piano__slot *slot,
                        const struct piano__timing *m, int64_t now)
{
    int64_t share = piano__stratum_share(t, now);
    int64_t all_ns = ns_of((int64_t)slot->stratum * slot->cost / 256);
    int64_t elapsed_ns = ns_of(now - slot->window_start);
    if (m->self < piano__mode_long()) {
        int64_t price = piano__each_self(piano__head_of(t, slot)->each);
        bool tells = slot->rare_square > 0 || !piano__stratum_is_rare(m->self, price);
        correct(t, slot, m, now);
        if (tells)
            learn(slot, m);
    }
    slot->window_start = now;
    struct piano__rate rate = {slot->stratum, elapsed_ns};
    int64_t stratum = piano__stratum_choose(t, slot, rate, now);
    if (stratum < PIANO_STRATUM_LEAST || 2 * all_ns * share < elapsed_ns) {
        start_timing(t, slot, now);
        return;
    }
    slot->stratum =
        (uint32_t)stratum; /* for the next stratum; `rest` is what remains of this one */
    slot->warm = 0;
    slot->resting = 1;
    set_left(t, slot, slot->rest);
}

/* Clears the gap, so the next call is timed unless the caller draws a new gap. */
static void end_sample(struct piano__thread *t, struct piano__slot *slot)
{
    struct piano__head *head = piano__head_of(t, slot);
    piano__frame_settle(t, slot);
    head->given = 0; /* first: see `make_room` */
    __asm__ __volatile__("" ::: "memory");
    head->left = 0;
    slot->sampling = 0;
}

static void take_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__timing *m, int64_t now)
{
    if (slot->window_calls == 0)
        slot->window_start = now - m->total;
    piano__stratum_see(slot, m);
    slot->samples++;
    slot->sample_self += m->self;
    slot->sample_total += m->total;
    if (slot->open == 0) {
        slot->outer_total += m->total;
        slot->outer_calls++;
    }
    if (++slot->window_calls >= WINDOW)
        judge_timed(t, slot, now);
}

void piano__mode_timed(struct piano__thread *t, struct piano__slot *slot,
                       const struct piano__entry *entry, const struct piano__timing *m, int64_t now)
{
    if (piano__mode_pinned)
        return;
    int64_t spent = m->spent;
    t->budget_spent += spent;
    if (entry->flags & PIANO_ENTRY_SAMPLED) {
        end_sample(t, slot);
        if (slot->mode != PIANO_SAMPLED)
            return;
        piano__stratum_see(slot, m);
        if (entry->flags & PIANO_ENTRY_WARM)
            slot->warm = 1;
        else
            take_sample(t, slot, m, now);
    } else if (slot->mode != PIANO_SAMPLED) {
        slot->window_spent += spent;
        slot->spent += spent;
        take_timed(t, slot, m, now);
    }
}

void piano__mode_frame(struct piano__thread *t, uint32_t functions)
{
    t->frame_fns += ((int64_t)functions * 16 - t->frame_fns) / 8;
}

void piano__mode_frame_ended(struct piano__thread *t, struct piano__slot *slot, int64_t wall)
{
    int64_t calls = slot->now.calls, wall_ns = ns_of(wall);
    bool first = slot->frame_calls == 0;
    slot->frame_calls += first ? 16 * calls : (16 * calls - slot->frame_calls) / 8;
    slot->frame_wall += first ? wall_ns : (wall_ns - slot->frame_wall) / 8;
    if (slot->mode != PIANO_SAMPLED || slot->sampling ||
        slot->frame_calls < (int64_t)16 * PIANO_FRAME_STRATA / 2 * slot->stratum)
        return;
    /* The next frame is a different population. Its own samples must dominate its price. */
    if (slot->samples > 1) {
        slot->sample_self /= slot->samples;
        slot->sample_total /= slot->samples;
        slot->samples = 1;
    }
    piano__mode_next_stratum(t, slot);
}
