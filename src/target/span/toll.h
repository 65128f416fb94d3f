/* The toll: what the probe itself takes before and after the window of a timed call.
 *
 * It depends on caches and branch prediction, so it is measured, with one more clock read at the
 * begin and one at the end. These two reads are a third of the cost of a timed call. So where the
 * toll hardly changes, only one probe in PIANO_TOLL_EVERY, drawn at random, measures itself. Each
 * of the others is charged the mean of the function's last measured probes, less the two reads. The
 * draw does not depend on the cost, so the sums over many calls are right on average, also when the
 * toll changes.
 *
 * Every probe measures itself
 *  - if the user asked for every call to be timed (PIANO_TIMING=all): callers must be exact;
 *  - if the function is timed with the plain clock;
 *  - for the first PIANO_TOLL_LEARN calls of a function;
 *  - if the thread timed no call within the last PIANO_TOLL_HOT_NS: the caches may be cold;
 *  - if the function is sampled, or called by a sample, or the call is a frame;
 *  - for some time after the thread had to wait for a CPU (`crowded_until`). A probe that measures
 *    itself detects that it lost the CPU, and the program is not charged for that. */
#ifndef PIANO_TARGET_SPAN_TOLL_H
#define PIANO_TARGET_SPAN_TOLL_H

#include "target/span/thread.h"

enum { PIANO_TOLL_EVERY = 128, PIANO_TOLL_LEARN = 16, PIANO_TOLL_HOT_NS = 2000 };

/* PIANO_TOLL_HOT_NS in ticks. INT64_MAX until the run is prepared. */
extern int64_t piano__toll_hot;
void piano__toll_init(uint64_t ns_per_tick_32);

/* The thread timed a call shortly before NOW, so its tables are cached. */
static inline bool piano__toll_is_hot(const struct piano__thread *t, int64_t now)
{
    return now - t->last_tick < piano__toll_hot;
}

/* Draws how many probes do not measure themselves before one does. The number is random: a program
 * with cyclic calls must not always be measured at the same place. */
void piano__toll_draw(struct piano__thread *t);
/* Adds a measured probe of SLOT: 1/256 ticks at the begin and at the end of the call. */
void piano__toll_learn(struct piano__thread *t, struct piano__slot *slot, int64_t begin,
                       int64_t end);

#endif
