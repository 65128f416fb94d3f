/* Time on and off the CPU of instrumented threads.
 *
 * A READING takes the thread's CPU time (CLOCK_THREAD_CPUTIME_ID, about 0.5 us) and compares it
 * with the clock. The difference is the time off the CPU since the thread was attached. When that
 * has grown by 20 us or more, the kernel's run queue wait (second number of schedstat, about 1 us)
 * is read too. Both values only grow, so the difference of two readings is exact for the time
 * between them.
 *
 * WHEN. A call that took `piano__onoff_least` (256 times the cost of a reading, at least 50 us) is
 * long and is checked at its end. A reading is taken at the begin of a call if the last call of the
 * function was long, or if the last reading is `piano__onoff_least` old. Calls of at least a
 * sixteenth of that are medium: when they have taken `piano__onoff_least` together, one is checked
 * and stands for those before it. A reading less than 2 us old is reused. So readings take less
 * than about 1 % of the time. Their cost is overhead.
 *
 * WHAT FOR. A long frame gets its CPU time and its run queue wait; shorter frames do not. For a
 * function's checked calls, the part of its self time that was certainly off the CPU is recorded
 * (common/offcpu.h). A reading at the begin of a call also tells about the piece of the caller's own
 * code before it. A thread gets its sums. */
#ifndef PIANO_TARGET_SPAN_ONOFF_H
#define PIANO_TARGET_SPAN_ONOFF_H

#include <stdbool.h>

#include "common/live.h"

/* Ticks. INT64_MAX until the run is prepared. Without a thread CPU clock only `piano__onoff_torn`
 * is set. */
extern int64_t piano__onoff_least;
extern int64_t piano__onoff_medium;
extern int64_t piano__onoff_recent;
extern int64_t piano__onoff_torn; /* longest time of a probe that keeps its CPU */

/* Measures the cost of a reading. */
void piano__onoff_init(void);
/* First and last reading of the calling thread T. */
void piano__onoff_attach(struct piano__thread *t);
void piano__onoff_detach(struct piano__thread *t);
/* After fork, in the child: closes the descriptors of the parent's threads. */
void piano__onoff_forget(void);

/* Reads the times of the calling thread T as of BEGAN. Time off the CPU since then counts as
 * profiler overhead and is charged to no function. */
void piano__onoff_look(struct piano__thread *t, int64_t began);
/* The same at the begin of a call: E called it, at CALLED. Time off the CPU in E's own code since its
 * last callee is E's. */
void piano__onoff_look_piece(struct piano__thread *t, struct piano__entry *e, int64_t called,
                             int64_t began);
/* Called after profiler work that started at BEGAN. If it took long, reads the times again and
 * charges no function for the time off the CPU. Returns the tick at the end. */
int64_t piano__onoff_after(struct piano__thread *t, int64_t began);
/* Reads the times of another thread of this process. Returns false if the kernel does not provide
 * them. */
bool piano__onoff_look_at(const struct piano__thread *t, struct piano__offcpu *look);

/* Returns the tick from which a reading is due at the begin of a call. */
static inline int64_t piano__onoff_due(const struct piano__thread *t,
                                       const struct piano__slot *slot)
{
    return slot->was_long ? t->look_soon : t->look_late;
}

/* Called when the call in ENTRY ended at NOW after `piano__onoff_medium` or more. SELF and TOTAL
 * are corrected ticks. */
void piano__onoff_close(struct piano__thread *t, struct piano__slot *slot,
                        const struct piano__entry *entry, int64_t now, int64_t self, int64_t total);

/* Called when a call that was due for a check was too short for it. */
static inline void piano__onoff_was_short(struct piano__slot *slot)
{
    slot->was_long = 0;
    slot->medium_time = 0;
}

/* CPU time of the call in ENTRY, just closed. It took TOOK ticks by the clock and WALL_NS
 * corrected. */
struct piano__onoff {
    int64_t cpu_ns;  /* -1: not known */
    int64_t runq_ns; /* waiting for a CPU; -1: not known */
};
struct piano__onoff piano__onoff_frame(const struct piano__thread *t,
                                       const struct piano__entry *entry, int64_t took,
                                       int64_t wall_ns);

#endif
