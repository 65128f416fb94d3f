/* Buffers for stack walks. A walk is too large for a small stack, and for the little thread-local
 * memory that is left when libpiano.so is loaded with dlopen. */
#ifndef PIANO_TARGET_HEAP_ROOMS_H
#define PIANO_TARGET_HEAP_ROOMS_H

#include "target/unwind/walk.h"

/* Returns NULL if all are taken. Any thread, signal-safe. */
struct piano__walk *piano__rooms_take(void);
void piano__rooms_give(struct piano__walk *room);

#endif
