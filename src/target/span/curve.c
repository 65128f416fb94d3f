/* The cost of a fenced or counted probe as a curve over the length of the body (calibrate.c). */
#include "target/span/calibrate.h"

struct piano__costs piano__costs;

struct piano__place piano__curve_place(const int64_t at[PIANO_BODIES], int64_t x)
{
    struct piano__place place = {PIANO_BODIES - 1, 4096};
    if (x >= at[PIANO_BODIES - 1])
        return place;
    place.next = 1;
    while (x >= at[place.next])
        place.next++;
    int64_t past = x - at[place.next - 1];
    place.part = past > 0 ? past * 4096 / (at[place.next] - at[place.next - 1]) : 0;
    return place;
}

void piano__curve_tabulate(const struct piano__bias *bias)
{
    struct piano__costs *costs = &piano__costs;
    int64_t window = bias->window[PIANO_BODIES - 1];
    costs->most = window > 0 ? window / 256 : 0;
    costs->scale = 0;
    if (costs->most > 0)
        costs->scale = (((uint64_t)PIANO_COST_STEPS << 32) - 1) / (uint64_t)costs->most + 1;
    for (int i = 0; i <= PIANO_COST_STEPS; i++) {
        int64_t middle =
            i < PIANO_COST_STEPS ? (2 * i + 1) * window / (2 * PIANO_COST_STEPS) : window;
        struct piano__place place = piano__curve_place(bias->window, middle);
        costs->at[i].inner = (int32_t)piano__curve_value(bias->inner, place);
        costs->at[i].outer = (int32_t)piano__curve_value(bias->outer, place);
    }
}
