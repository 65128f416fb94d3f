/* Periodic snapshots. The running time of a program is not known in advance, and a recording should
 * neither miss the first second nor fill the disk within a month. So the interval starts at 0.1 s
 * and doubles after every 32 snapshots, or earlier, after 8 MB of snapshots. At any time a few
 * dozen snapshots cover the last half of the running time, and their number grows with the
 * logarithm of that time. */
#include "tool/record/series.h"

static const double FIRST_S = 0.1;

void series_start(struct series *s, double every_s, double now_s)
{
    *s = (struct series){.interval_s = every_s < 0 ? FIRST_S : every_s, .grows = every_s < 0};
    s->due_s = now_s + s->interval_s;
}

bool series_is_due(const struct series *s, double now_s)
{
    return s->interval_s > 0 && now_s >= s->due_s;
}

void series_advance(struct series *s, double now_s, uint64_t bytes)
{
    s->bytes += bytes;
    s->taken++;
    if (s->grows && (s->taken >= SERIES_PER_STEP || s->bytes >= SERIES_STEP_BYTES)) {
        s->interval_s *= 2;
        s->taken = 0;
        s->bytes = 0;
    }
    s->due_s += s->interval_s;
    if (s->due_s < now_s) /* we or the machine were suspended: skip the missed ones */
        s->due_s = now_s + s->interval_s;
}
