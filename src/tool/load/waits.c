/* Waits of sampled functions.
 *
 * A counted call is never checked. When it loses the CPU, both its self time and its wait appear in
 * the caller. The self time is then moved to the right function by samples and looks (estimates.c).
 * A wait longer than the remaining self time cannot be the caller's, and moves to the sampled
 * functions.
 *
 * The target moves long pieces of a caller's time to sampled functions without their waits
 * (span/pay.c). But a frame's own CPU time is known. Waits of a frame that none of its functions
 * has are given to its sampled functions. */
#include "tool/load/estimates.h"

#include <math.h>

static const double WHOLE = 0.9, LEAST_NS = 20000;

static bool is_sampled(const struct tally *sum)
{
    return sum->timed < sum->calls && sum->self_ns > sum->wait_ns;
}

/* Removes and returns the wait of SUM that exceeds its self time. Adds the run queue part to
 * *RUNQ. */
static int64_t take_excess(struct tally *sum, int64_t *runq)
{
    int64_t most = sum->self_ns > 0 ? sum->self_ns : 0;
    if (sum->wait_ns <= most)
        return 0;
    int64_t excess = sum->wait_ns - most;
    int64_t moved = saturating_int((double)sum->runq_ns * ((double)excess / (double)sum->wait_ns));
    sum->wait_ns = most;
    sum->runq_ns -= moved;
    *runq = saturating_add(*runq, moved);
    return excess;
}

/* Gives EXCESS ns of waiting, RUNQ of it for a CPU, to the sampled functions in proportion to their
 * CPU time. */
static void give_sampled(struct run_scratch *all, int64_t excess, int64_t runq)
{
    int64_t room = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct tally *sum = &all->entries[i].sum;
        if (is_sampled(sum))
            room = saturating_add(room, sum->self_ns - sum->wait_ns);
    }
    if (excess <= 0 || room == 0)
        return;
    double part = excess < room ? (double)excess / (double)room : 1.0;
    double of_runq = (double)runq / (double)excess;
    for (size_t i = 0; i < all->count; i++) {
        struct tally *sum = &all->entries[i].sum;
        if (!is_sampled(sum))
            continue;
        int64_t more = saturating_int(((double)sum->self_ns - (double)sum->wait_ns) * part);
        sum->wait_ns += more;
        sum->runq_ns = saturating_add(sum->runq_ns, saturating_int((double)more * of_runq));
        sum->has_cpu = true;
    }
}

void waits_settle(struct run_scratch *all)
{
    int64_t excess = 0, runq = 0;
    for (size_t i = 0; i < all->count; i++)
        excess = saturating_add(excess, take_excess(&all->entries[i].sum, &runq));
    give_sampled(all, excess, runq);
}

void waits_settle_frame(struct run_scratch *line, int64_t wall_ns, int64_t off_ns, int64_t runq_ns)
{
    double self = 0, missing = (double)off_ns, runq = (double)(runq_ns > 0 ? runq_ns : 0);
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        self += (double)sum->self_ns;
        missing -= (double)sum->wait_ns;
        runq -= (double)sum->runq_ns;
    }
    bool is_whole = self > WHOLE * (double)wall_ns; /* else other lines hold parts of the frame */
    if (is_whole && missing > LEAST_NS)
        give_sampled(line, saturating_int(missing), saturating_int(fmax(0, fmin(runq, missing))));
}
