/* Computes the off-CPU time of one call; see offcpu.h. */
#include "common/offcpu.h"

#include "common/lines.h"

static int64_t ns_of(int64_t ticks, uint64_t ns_per_tick_32)
{
    return ticks > 0 ? piano__ticks_ns(ticks, ns_per_tick_32) : 0;
}

/* Returns the part of TOTAL ns that belongs to the function itself: without what was GIVEN to
 * checked callees, and without the time in UNCHECKED callees, which may have been off the CPU. */
static int64_t own_part(int64_t total, int64_t given, int64_t unchecked, int64_t most)
{
    return piano__within(total - given - unchecked, 0, most);
}

void piano__offcpu_share(struct piano__offcpu *now, const struct piano__offcpu *began,
                         const struct piano__call *call, uint64_t ns_per_tick_32,
                         struct piano__tally *tally)
{
    int64_t stale = ns_of(call->stale, ns_per_tick_32);
    int64_t callees = call->total - call->self - (now->timed - began->timed);
    int64_t unchecked = ns_of(callees, ns_per_tick_32);
    int64_t given = now->given - began->given;
    int64_t off =
        piano__within(now->off - began->off - stale, 0, ns_of(call->elapsed, ns_per_tick_32));
    int64_t own = own_part(off, given, unchecked, ns_of(call->self, ns_per_tick_32));
    tally->off_ns += own * call->weight;
    tally->checked++;
    if (now->runq >= 0 && began->runq >= 0) {
        int64_t runq = piano__within(now->runq - began->runq - stale, 0, off);
        int64_t runq_given = now->runq_given - began->runq_given;
        tally->runq_ns += own_part(runq, runq_given, unchecked, own) * call->weight;
        now->runq_given = began->runq_given + (runq > runq_given ? runq : runq_given);
    }
    now->given = began->given + (off > given ? off : given);
    now->timed = began->timed + call->total;
}

void piano__offcpu_piece(struct piano__offcpu *now, const struct piano__offcpu *before,
                         int64_t piece, uint64_t ns_per_tick_32, int64_t *off, int64_t *runq)
{
    int64_t rest = ns_of(now->tick - before->tick - piece, ns_per_tick_32);
    int64_t own = piano__within(now->off - before->off - rest, 0, ns_of(piece, ns_per_tick_32));
    *off += own;
    now->given += own;
    if (now->runq >= 0 && before->runq >= 0) {
        int64_t waited = piano__within(now->runq - before->runq - rest, 0, own);
        *runq += waited;
        now->runq_given += waited;
    }
}
