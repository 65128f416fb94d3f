/* Records threads by number and name. Each thread calls this for itself. */
#ifndef PIANO_TARGET_TRACE_THREADS_H
#define PIANO_TARGET_TRACE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "target/trace/events.h"

/* Makes room for the first records; MAX_BYTES as in events.h. Once per recording. */
bool piano__threads_init(uint64_t max_bytes);
/* Call in a forked child. */
void piano__threads_forget(void);
/* Records the thread if it is new, or if its name has changed since it was last recorded. */
void piano__threads_note(struct piano__events_self *self);

#endif
