/* Time on and off the CPU of instrumented threads.
 *
 * A READING takes the thread's CPU time (CLOCK_THREAD_CPUTIME_ID, about 0.5 us) and compares it with the clock: what
 * the thread was off the CPU since it was attached. When that has grown by 20 us or more, the kernel's count of the time spent
 * waiting for a CPU (the second number of schedstat, about 1 us) is read, too. Both only ever grow, so a
 * difference of two readings is exact for the time between them.
 *
 * WHEN. A call that took `piano__onoff_least` (256 times what a reading costs) is long, and checked when it
 * ends. At the begin of a call a reading is taken when the last call of the function was long, or when the last reading is
 * `piano__onoff_least` ago. Of calls that took a sixteenth of that or more, one is checked whenever they have taken
 * `piano__onoff_least` together, and stands for those before it. A reading less than 2 us old is good enough and not repeated. So readings take less than
 * about 1 % of the time whatever the program does; what they take is the profiler's overhead.
 *
 * WHAT FOR. A frame that was long gets its CPU time and its wait for a CPU; shorter ones have none. A function gets, of its
 * long calls, what of its self time it was certainly off the CPU (common/offcpu.h). A thread gets its sums. */
#ifndef PIANO_TARGET_SPAN_ONOFF_H
#define PIANO_TARGET_SPAN_ONOFF_H

#include <stdbool.h>

#include "common/live.h"

/* Ticks; all INT64_MAX until the run is prepared, and for good where there is no such clock. */
extern int64_t piano__onoff_least;
extern int64_t piano__onoff_medium;
extern int64_t piano__onoff_recent;
extern int64_t piano__onoff_torn; /* what a probe takes at most, if it does not lose the CPU */

/* Measures what a reading costs. */
void piano__onoff_init(void);
/* First reading of the calling thread, which is T; and the last. */
void piano__onoff_attach(struct piano__thread *t);
void piano__onoff_detach(struct piano__thread *t);
/* After fork, in the child: gives up the descriptors of the parent's threads. */
void piano__onoff_forget(void);

/* Reads the times of the calling thread, T, as of BEGAN. Time off the CPU since then is part of the profiler's
 * overhead, and no function is charged for it. */
void piano__onoff_look(struct piano__thread *t, int64_t began);
/* The profiler has worked since BEGAN. If that took long, reads the times again, and charges no function for the time
 * off the CPU. Returns the tick at the end. */
int64_t piano__onoff_after(struct piano__thread *t, int64_t began);
/* Reads the times of another thread of this process. False when the kernel does not give them. */
bool piano__onoff_look_at(const struct piano__thread *t, struct piano__offcpu *look);

/* From which tick on a reading is due at the begin of a call. */
static inline int64_t piano__onoff_due(const struct piano__thread *t,
                                       const struct piano__slot *slot)
{
    return slot->was_long ? t->look_soon : t->look_late;
}

/* The call in ENTRY ended at NOW and took `piano__onoff_medium` or more; SELF and TOTAL ticks, corrected. */
void piano__onoff_close(struct piano__thread *t, struct piano__slot *slot,
                        const struct piano__entry *entry, int64_t now, int64_t self, int64_t total);

/* A call that was to be checked was too short for that. */
static inline void piano__onoff_was_short(struct piano__slot *slot)
{
    slot->was_long = 0;
    slot->medium_time = 0;
}

/* Of the call in ENTRY, just closed, which took TOOK ticks by the clock and WALL_NS corrected. */
struct piano__onoff {
    int64_t cpu_ns;  /* -1: not known */
    int64_t runq_ns; /* waiting for a CPU; -1: not known */
};
struct piano__onoff piano__onoff_frame(const struct piano__thread *t,
                                       const struct piano__entry *entry, int64_t took,
                                       int64_t wall_ns);

#endif
