/* The rate of context switches decides about the stacks.
 *
 * A long stack takes more time each time a thread leaves its CPU, and a ring holds fewer of them
 * until the tool reads it. At a low rate neither matters. At a high rate most absences are too
 * short to be recorded, but the kernel cannot know this when it copies the stack. */
#include "tool/record/pace.h"

static const uint64_t SECOND_NS = 1000000000;
static const uint64_t LOOK_NS = 20000000;   /* a rate of less time is chance */
static const uint64_t CALM_NS = 1000000000; /* so that a rate near the limits changes little */

bool pace_look(struct pace *p, uint64_t now_ns, uint64_t count, bool has_lost)
{
    if (p->begin_ns == 0)
        p->begin_ns = p->at_ns = now_ns;
    p->is_fast |= has_lost;
    uint64_t ns = now_ns - p->at_ns;
    if (ns < LOOK_NS)
        return p->is_fast;
    double rate = (double)(count - p->count) * (double)SECOND_NS / (double)ns;
    p->at_ns = now_ns;
    p->count = count;
    p->is_fast |= rate > PACE_FAST;
    p->is_storm = rate > PACE_STORM;
    if (rate >= PACE_SLOW || has_lost)
        p->slow_ns = 0;
    else if (p->slow_ns == 0)
        p->slow_ns = now_ns;
    else if (now_ns - p->slow_ns >= CALM_NS)
        p->is_fast = false;
    return p->is_fast;
}

bool pace_hurries(const struct pace *p)
{
    return !p->is_storm && (p->is_fast || p->at_ns - p->begin_ns < CALM_NS);
}
