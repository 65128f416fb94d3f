/* Adds samples to the sums of their stack and of the recording. Any thread. */
#ifndef PIANO_TARGET_HEAP_SUMS_H
#define PIANO_TARGET_HEAP_SUMS_H

#include <stdint.h>

#include "common/recording.h"
#include "target/heap/live.h"

void piano__sums_allocated(struct piano__rec_header *header, const struct piano__block *block);
/* BLOCK was counted as allocated and cannot be tracked: whether it is live is unknown. */
void piano__sums_untracked(struct piano__rec_header *header, const struct piano__block *block);
void piano__sums_freed(struct piano__rec_header *header, const struct piano__block *block,
                       uint64_t now_ns);

#endif
