/* Running mean of pairs of clock reads; see pace.h. The counter may advance in steps of 10 ns, so
 * one pair is not enough: the pace averages means of 64 pairs. */
#include "target/span/pace.h"

#include "target/span/run.h"
#include "target/sys/clock.h"

enum { PAIRS = 64, MEMORY = 4, LEAST_GAP = 24, GAPS = 16 };

/* Gaps vary so that a program with cyclic calls does not always pay at the same place. */
static int32_t next_gap(const struct piano__thread *t)
{
    return LEAST_GAP + (int32_t)(t->seq * 0x9e3779b97f4a7c15u >> 60) % GAPS;
}

void piano__pace_take(struct piano__thread *t)
{
    t->next_pair = next_gap(t);
    if (piano__run.header->bias.pair <= 0)
        return; /* calibration is running */
    int64_t ticks = 0;
    for (int turn = 0; turn < 2; turn++) { /* the first turn warms up the code */
        __asm__ __volatile__("" ::: "memory");
        int64_t first = piano__ticks_fenced();
        ticks = piano__ticks_fenced() - first;
    }
    t->overhead += 4 * 256 * ticks;
    piano__pace_learn(t, ticks);
}

void piano__pace_learn(struct piano__thread *t, int64_t ticks)
{
    int64_t calibrated = piano__run.header->bias.pair / 256;
    if (ticks > 2 * calibrated || ticks < calibrated / 4)
        return; /* interrupted, or read on two CPUs whose counters differ */
    t->pair_ticks += ticks;
    if (++t->pairs < PAIRS)
        return;
    int64_t mean = t->pair_ticks * 256 / PAIRS;
    int64_t pace = PIANO_PACE_UNIT * mean / piano__run.header->bias.pair;
    t->pace = t->pace ? t->pace + (pace - t->pace) / MEMORY : pace;
    t->pair_ticks = 0;
    t->pairs = 0;
}
