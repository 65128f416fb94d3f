/* Writes events of this thread into the recording (common/events.h). Any thread, signal-safe: an
 * event of a signal handler that interrupts another event is dropped and counted. If nothing is
 * recorded, these functions do nothing, in about a nanosecond.
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

/* A thread's state for writing events. */
struct piano__events_self {
    struct piano__buffer *buffer; /* NULL before the first event, and after the thread's end */
    uintptr_t inside;             /* stack pointer of the function that writes an event; else 0 */
    uint32_t parked;              /* between piano_park and piano_unpark: includes all waits */
    /* In a call that waits (preload/park.c), or left it without returning from it. */
    uint32_t waiting;
    uint32_t tid;    /* 0: unknown yet */
    uint32_t rounds; /* rounds of key destructors that reached events.c */
    uint32_t gate;   /* the value of the gate that `buffer` and `name` belong to */
    char name[16];   /* as last recorded */
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
/* The same with the numbers of the names, from `piano__events_name`; 0: none. */
void piano__events_task_spawn_by(uint64_t task, uint32_t name, uint32_t place);
void piano__events_task_end(uint64_t task);
void piano__events_poll_begin(uint64_t task);
/* Begins a poll of a task that was not spawned: a callback, identified by NAME. FUNCTION is the
 * address in NAME, or 0. */
void piano__events_callback_begin(uint64_t task, const char *name, uintptr_t function);
/* The same with the number of the name, from `piano__events_name`. */
void piano__events_callback_begin_by(uint64_t task, uint32_t name);
void piano__events_poll_end(void);
/* A poll ended at TICKS, which is not before this thread's newest event. If BEHIND is not 0, the
 * thread has waited since then. */
void piano__events_poll_ended(int64_t ticks, enum piano__park behind);
void piano__events_park(enum piano__park kind);
/* RESULT is the return value of the call; negative if it failed or was cancelled. */
void piano__events_unpark(int64_t result);
void piano__events_wake(uint64_t task);
void piano__events_queue(uint64_t queue, uint64_t depth);
void piano__events_mark(const char *name);
void piano__events_value(const char *name, int64_t value);

/* Returns the number of NAME, valid for this recording; 0 if it has none. */
uint32_t piano__events_name(const char *name);

/* Starts recording events. They take at most MAX_BYTES of the recording, 0 for the default. Then
 * new events replace the oldest. Returns 0 or a negative errno. Once per recording. */
int piano__events_start(uint64_t max_bytes);
/* Called when the program ends: adds pending counts to the header. */
void piano__events_end(void);
/* Call in a forked child. Returns true if this thread was in the middle of an event (a signal
 * handler forked). Then the event continues where it was, so its memory has to stay, and this
 * process writes no more events. */
bool piano__events_forget(void);

#endif
