/* Threads by number and name, in the recording. Any thread, for itself. */
#ifndef PIANO_TARGET_TRACE_THREADS_H
#define PIANO_TARGET_TRACE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "target/trace/events.h"

/* Room for the first of them; MAX_BYTES as in events.h. Once per recording. */
bool piano__threads_init(uint64_t max_bytes);
/* In a forked child. */
void piano__threads_forget(void);
/* Records the thread if it is new, or has another name than when it was last recorded. */
void piano__threads_note(struct piano__events_self *self);

#endif
