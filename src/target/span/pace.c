/* A running mean of pairs of reads; see pace.h. The counter may go in steps of 10 ns, so a single pair says little: means
 * of 64, of which the last few count. */
#include "target/span/pace.h"

#include "target/span/run.h"
#include "target/sys/clock.h"

enum { PAIRS = 64, MEMORY = 4 };

void piano__pace_take(struct piano__thread *t)
{
    int64_t calibrated = piano__run.header->bias.pair;
    int64_t first = piano__ticks_fenced();
    int64_t ticks = piano__ticks_fenced() - first;
    if (calibrated <= 0 || ticks * 256 > 2 * calibrated)
        return; /* interrupted */
    t->pair_ticks += ticks;
    if (++t->pairs < PAIRS)
        return;
    int64_t pace = PIANO_PACE_UNIT * (t->pair_ticks * 256 / PAIRS) / calibrated;
    t->pace = t->pace ? t->pace + (pace - t->pace) / MEMORY : pace;
    t->pair_ticks = 0;
    t->pairs = 0;
}
