/* The blocks of the live image: made, taken, given back. */
#ifndef PIANO_TARGET_SPAN_BLOCKS_H
#define PIANO_TARGET_SPAN_BLOCKS_H

#include "target/span/thread.h"

/* A block that no thread uses; NULL when no more can be had. */
struct piano__thread *piano__blocks_take(void);
void piano__blocks_give(struct piano__thread *t);

/* All blocks ever made, for the exit. */
uint32_t piano__blocks_count(void);
struct piano__thread *piano__blocks_at(uint32_t i);

/* In a forked child: what the parent shares is replaced by private memory at the same addresses (stale
 * guards may still point there) and never used again. */
void piano__blocks_abandon(void);

#endif
