/* The times of a timed call: what is measured, and what is charged to whom. Part of span.c, which
 * alone includes it.
 *
 * TIME. Each thread keeps running sums. `attributed`: ticks given to functions so far, with counted
 * calls at their price. `correction`: what samples added to these prices. `overhead`: cost of the
 * probes, in 1/256 ticks. `raw`: the part of `overhead` charged to some function. `add_counted`
 * adds what counted calls left in `counted`. A timed call saves the sums at its begin. At its end
 *
 *     total = elapsed - overhead inside - inner bias
 *     self  = total - attributed inside - correction inside
 *
 * and `attributed` becomes its saved value plus `total`. So a caller's self time excludes its
 * callees, timed or counted, and all probe costs below it, without one record per edge. The self
 * times inside a timed call add up to its total: the caller keeps the remainder, of either sign.
 * The outer bias is added after the end, so the caller does not pay it. The variance of the
 * corrections inside is the variance of the caller's self time. */
#ifndef PIANO_TARGET_SPAN_TIMES_H
#define PIANO_TARGET_SPAN_TIMES_H

#include "common/lines.h"
#include "target/span/calibrate.h"
#include "target/span/entry.h"
#include "target/span/frame.h"
#include "target/span/mode.h"
#include "target/span/pace.h"
#include "target/span/pay.h"
#include "target/span/run.h"

enum { COLD_NS = 2000, LEAST_SPENT = 16 * 256, MOST_SPENT = 8192 * 256 };

/* Adds this call's time to the function's total and returns the amount. Each moment must count
 * once, so normally only the outermost call adds. A sampled function that calls itself has no known
 * outermost call; there each call adds its time without the recursive calls below it. */
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

/* The counter may advance in steps of 10 ns, so the measured total of a short call can be below
 * zero. Such a call gets 0, and the next ones the less: otherwise the function's mean would be too
 * high by up to half a step. LEAST bounds what is carried over. */
static int64_t carry_lack(struct piano__slot *slot, int64_t total, int64_t least)
{
    total += slot->lack;
    int64_t negative = total >> 63; /* no branch: it would be mispredicted half of the time */
    slot->lack = (total > least ? total : least) & negative;
    return total & ~negative;
}

static struct piano__timing measure(const struct piano__thread *t, struct piano__slot *slot,
                                    const struct piano__entry *e, int64_t now)
{
    const struct piano__bias *bias = &piano__run.header->bias;
    int64_t begin = e->flags & PIANO_ENTRY_BEGIN_UNMEASURED ? slot->toll.begin : 0;
    struct piano__timing m = {.inner = bias->plain_inner, .outer = bias->plain_outer};
    if (e->flags & PIANO_ENTRY_FENCED) {
        struct piano__cost cost = piano__cost_of(now - e->start - (begin >> 8));
        m.inner = piano__paced(t, cost.inner);
        m.outer = piano__paced(t, cost.outer);
    }
    m.inner += begin;
    if (e->flags & PIANO_ENTRY_END_UNMEASURED)
        m.outer += slot->toll.end;

    m.total = now - e->start - ((t->overhead - e->overhead + m.inner + 128) >> 8);
    m.total = e->flags & PIANO_ENTRY_WARM ? (m.total > 0 ? m.total : 0)
                                          : carry_lack(slot, m.total, -2 * (m.inner >> 8));
    m.self = m.total - (t->attributed - e->attributed);
    if (e->flags & PIANO_ENTRY_SAMPLED)
        m.below = t->overhead - e->overhead;
    return m;
}

/* Everything that timing the call took. The end of a measured probe is not known yet. Assume it
 * costs as much as the begin. */
static int64_t spent_on(const struct piano__entry *e, const struct piano__timing *m)
{
    int64_t spent = m->inner + m->outer + 2 * e->probe;
    return spent < LEAST_SPENT  ? LEAST_SPENT
           : spent > MOST_SPENT ? MOST_SPENT /* more means a preemption */
                                : spent;
}

/* The call before a sample runs through a cold probe. It is charged the price of a counted call,
 * and the excess counts as probe cost. An excess of COLD_NS or more must be the function's own; it
 * stays with the caller, as for any counted call. */
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

/* Charges a finished call to its function and updates the sums its callers subtract. */
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

#endif
