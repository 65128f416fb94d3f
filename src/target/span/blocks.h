/* Creates and recycles the blocks of the live image. */
#ifndef PIANO_TARGET_SPAN_BLOCKS_H
#define PIANO_TARGET_SPAN_BLOCKS_H

#include "target/span/thread.h"

/* Returns an unused block; NULL if there is none and none can be made. */
struct piano__thread *piano__blocks_take(void);
void piano__blocks_give(struct piano__thread *t);

/* All blocks ever made. The exit path and the watcher iterate over them. */
uint32_t piano__blocks_count(void);
struct piano__thread *piano__blocks_at(uint32_t i);

/* In a forked child: replaces memory shared with the parent by private memory at the same
 * addresses, because stale guards may still point there. These blocks are never used again. */
void piano__blocks_abandon(void);

#endif
