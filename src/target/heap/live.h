/* The sampled blocks that are not freed, found by address. Lock-free, any thread, signal handlers too. */
#ifndef PIANO_TARGET_HEAP_LIVE_H
#define PIANO_TARGET_HEAP_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"

/* What is known of a block. */
struct piano__block {
    uint64_t address;
    uint64_t size;
    uint64_t rate;
    uint64_t birth_ns;
    uint32_t stack;
    uint32_t thread;
};

/* Room for RECORDS blocks; false when there is no memory for the index. Once per recording. */
bool piano__live_init(uint64_t records);
/* Has the first records in the recording, so that the first sample need not ask the kernel for anything. */
bool piano__live_prepare(void);
/* In a forked child. */
void piano__live_forget(void);
/* 0, -ENOSPC when the table is full, -ENOMEM when a chunk cannot be had. The address must not be in it. */
int piano__live_insert(const struct piano__block *block);
/* False when ADDRESS is not in it. Exactly one of several callers gets the block. */
bool piano__live_remove(uint64_t address, struct piano__block *block);
/* Looking at all of them, while others insert and remove: record NUMBER, from 0 to less than `piano__live_records`. False when
 * there is no block in it, or not the same from beginning to end. */
uint64_t piano__live_records(void);
bool piano__live_read(uint64_t number, struct piano__block *block);
/* How many there is room for. */
uint64_t piano__live_room(void);

#endif
