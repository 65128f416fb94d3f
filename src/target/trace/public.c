/* The trace's part of the installed interface, include/piano.h. events.c has the functions that are
 * called for every poll. */
#include "piano.h"

#include "target/trace/events.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void piano_worker_start(uint64_t worker, const char *name)
{
    piano__events_worker_start(worker, name);
}

EXPORT void piano_worker_stop(void)
{
    piano__events_worker_stop();
}

EXPORT void piano_task_spawn(uint64_t task, const char *name, const char *place)
{
    piano__events_task_spawn(task, name, place);
}

EXPORT void piano_task_end(uint64_t task)
{
    piano__events_task_end(task);
}

/* Waits of the thread until the unpark are part of this park, and not parks of their own
 * (preload/park.c). */
EXPORT void piano_park(void)
{
    piano__events_park(PIANO_PARK_API);
    piano__events_self.parked = 1;
}

EXPORT void piano_unpark(void)
{
    piano__events_self.parked = 0;
    piano__events_unpark(-1);
}

EXPORT void piano_queue_depth(uint64_t queue, uint64_t depth)
{
    piano__events_queue(queue, depth);
}

EXPORT void piano_mark(const char *name)
{
    piano__events_mark(name);
}

EXPORT void piano_value(const char *name, int64_t value)
{
    piano__events_value(name, value);
}
