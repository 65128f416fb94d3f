/* Mean cost of the probes of a function; see toll.h. */
#include "target/span/toll.h"

#include "target/span/pace.h"
#include "target/span/run.h"

enum { MEMORY_BITS = 5 };

int64_t piano__toll_hot = INT64_MAX;

void piano__toll_init(uint64_t ns_per_tick_32)
{
    piano__toll_hot = (int64_t)(((uint64_t)PIANO_TOLL_HOT_NS << 32) / ns_per_tick_32);
}

void piano__toll_draw(struct piano__thread *t)
{
    t->unmeasured = (int64_t)(piano__thread_random(t) % (2 * PIANO_TOLL_EVERY - 1));
}

static bool is_interrupted(int64_t cost)
{
    return cost / 256 >= piano__toll_hot;
}

void piano__toll_learn(struct piano__thread *t, struct piano__slot *slot, int64_t begin,
                       int64_t end)
{
    const struct piano__bias *bias = &piano__run.header->bias;
    struct piano__toll *toll = &slot->toll;
    if (is_interrupted(begin) || is_interrupted(end))
        return; /* charged to no function, and not typical */
    /* The first measurement is the first mean. Shifts, because nothing measures this. */
    int bits = 31 - __builtin_clz(toll->seen + 1);
    bits = bits < MEMORY_BITS ? bits : MEMORY_BITS;
    toll->seen += toll->seen < INT32_MAX;
    toll->begin_mean += (begin - toll->begin_mean) >> bits;
    toll->end_mean += (end - toll->end_mean) >> bits;
    toll->begin = toll->begin_mean - piano__paced(t, bias->begin_read);
    toll->end = toll->end_mean - piano__paced(t, bias->end_read);
}
