/* The sampled blocks that are not freed, by address. Lock-free, any thread, signal-safe. */
#ifndef PIANO_TARGET_HEAP_LIVE_H
#define PIANO_TARGET_HEAP_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"

struct piano__block {
    uint64_t address;
    uint64_t size;
    uint64_t rate;
    uint64_t birth_ns;
    uint32_t stack;
    uint32_t thread;
};

/* Makes room for RECORDS blocks. Returns false if there is no memory for the index. Once per
 * recording. */
bool piano__live_init(uint64_t records);
/* Claims the first records in the recording, so that the first sample makes no system call for
 * it. */
bool piano__live_prepare(void);
/* Call in a forked child. */
void piano__live_forget(void);
/* Returns 0, -ENOSPC if the table is full, or -ENOMEM if no chunk is available. The address must
 * not be in the table. */
int piano__live_insert(const struct piano__block *block);
/* Returns false if ADDRESS is not in the table. Exactly one of several concurrent callers gets the
 * block. */
bool piano__live_remove(uint64_t address, struct piano__block *block);
/* Iterate over all blocks while other threads insert and remove: NUMBER is from 0 to less than
 * `piano__live_records`. Returns false if the record is free, or changed while it was read. */
uint64_t piano__live_records(void);
bool piano__live_read(uint64_t number, struct piano__block *block);
/* Returns how many blocks fit. */
uint64_t piano__live_room(void);
#ifdef PIANO_CHECK
/* Returns whether each record is either in the free list or in the index, once (sys/check.h). No
 * other thread may use the table meanwhile. */
bool piano__live_is_valid(void);
#endif

#endif
