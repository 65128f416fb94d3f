/* Measures what the probes cost on this machine. */
#ifndef PIANO_TARGET_SPAN_CALIBRATE_H
#define PIANO_TARGET_SPAN_CALIBRATE_H

#include "common/live.h"

/* Fills in `bias` and `ns_per_tick_32`; takes about 2 ms. The image plan must be in HEADER. */
void piano__calibrate(struct piano__live_header *header);

/* Fills in `piano__costs`. */
void piano__curve_tabulate(const struct piano__bias *bias);

/* Position of X among the points AT of a curve: PART, in 1/4096, of the way from point NEXT - 1 to
 * point NEXT. Values outside the curve are clamped to its ends. */
struct piano__place {
    int next;
    int64_t part;
};
struct piano__place piano__curve_place(const int64_t at[PIANO_BODIES], int64_t x);

static inline int64_t piano__curve_value(const int64_t value[PIANO_BODIES],
                                         struct piano__place place)
{
    int64_t before = value[place.next - 1];
    return before + (value[place.next] - before) * place.part / 4096;
}

/* The calibrated cost of a fenced probe, in 1/256 ticks, as a table over the length of its window:
 * a look-up is much cheaper than the interpolation. */
enum { PIANO_COST_STEPS = 128 };
struct piano__cost {
    int32_t inner;
    int32_t outer;
};
extern struct piano__costs {
    int64_t most;   /* ticks: longer windows all cost the same */
    uint64_t scale; /* steps per tick, 32.32 fixed point, rounded up */
    struct piano__cost at[PIANO_COST_STEPS + 1];
} piano__costs;

static inline struct piano__cost piano__cost_of(int64_t window)
{
    window = window < piano__costs.most ? window : piano__costs.most;
    window &= ~(window >> 63); /* at least 0; no branch, because windows vary */
    return piano__costs.at[(uint64_t)window * piano__costs.scale >> 32];
}

#endif
