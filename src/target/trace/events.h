/* Events of this thread into the recording (common/events.h). Any thread, signal-safe: an event of a signal handler in the
 * middle of another one is dropped and counted. When nothing is recorded, all of this does nothing, in a nanosecond.
 *
 * include/piano.h has the same for programs. */
#ifndef PIANO_TARGET_TRACE_EVENTS_H
#define PIANO_TARGET_TRACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/events.h"
#include "target/record/gate.h"
#include "target/sys/stack.h"

struct piano__buffer;

/* A thread, as far as it writes events. */
struct piano__events_self {
    struct piano__buffer *buffer; /* NULL before the first event, and after the thread's end */
    uintptr_t inside;             /* an event is being written: by whom, a stack pointer; else 0 */
    uint32_t parked;              /* between piano_park and piano_unpark: waits are part of that */
    uint32_t
        waiting;  /* in a call that waits (preload/park.c), or left it by other ways than its end */
    uint32_t tid; /* 0: not known yet */
    uint32_t rounds; /* of key destructors that were ours */
    char name[16];   /* as it was last recorded */
    struct piano__stack_bounds stack;
};

extern __thread struct piano__events_self piano__events_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline bool piano__events_on(void)
{
    return piano__gate_is_open(&piano__gate->events);
}

void piano__events_worker_start(uint64_t worker, const char *name);
void piano__events_worker_stop(void);
void piano__events_task_spawn(uint64_t task, const char *name, const char *place);
/* The same by the numbers of the names, as `piano__events_name` gave them; 0: none. */
void piano__events_task_spawn_by(uint64_t task, uint32_t name, uint32_t place);
void piano__events_task_end(uint64_t task);
void piano__events_poll_begin(uint64_t task);
/* Of a task that was not spawned: a callback, which is known by its NAME; FUNCTION is the address in that, or 0. */
void piano__events_callback_begin(uint64_t task, const char *name, uintptr_t function);
/* The same by the number of the name, as `piano__events_name` gave it. */
void piano__events_callback_begin_by(uint64_t task, uint32_t name);
void piano__events_poll_end(void);
/* A poll ended at TICKS, which is not before this thread's newest event, and the thread has waited since; BEHIND 0: it has not. */
void piano__events_poll_ended(int64_t ticks, enum piano__park behind);
void piano__events_park(enum piano__park kind);
/* RESULT is what the call returned; below 0 when it failed, or was cancelled. */
void piano__events_unpark(int64_t result);
void piano__events_wake(uint64_t task);
void piano__events_queue(uint64_t queue, uint64_t depth);
void piano__events_mark(const char *name);
void piano__events_value(const char *name, int64_t value);

/* The number of NAME for as long as there is this recording; 0 when it has none. */
uint32_t piano__events_name(const char *name);

/* Begins: events take at most MAX_BYTES of the recording, 0 for the default, and go on in place of the oldest then. 0 or
 * negative errno. Once per recording. */
int piano__events_start(uint64_t max_bytes);
/* The program ends: the counts that were kept back go into the header. */
void piano__events_end(void);
/* In a forked child. True when this thread was in the middle of an event (a signal handler forked): then the event goes
 * on where it was, so its memory has to stay, and there are no more events in this process. */
bool piano__events_forget(void);

#endif
