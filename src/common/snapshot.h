/* Taking a snapshot of a heap recording: from outside, by the tool, or from inside, by the program itself. */
#ifndef PIANO_COMMON_SNAPSHOT_H
#define PIANO_COMMON_SNAPSHOT_H

#include <stdint.h>

#include "common/recording.h"

/* A recording as one process has it mapped. */
struct piano__rec_view {
    struct piano__rec_header *header;
    /* Chunk NUMBER, mapped; NULL when it cannot be had. */
    struct piano__chunk *(*chunk)(struct piano__rec_view *view, uint64_t number);
    /* A fresh chunk, `ready`; NULL when there is no room. */
    struct piano__chunk *(*claim)(struct piano__rec_view *view, uint32_t type, uint64_t index);
    struct piano__chunk *log; /* where this process puts its snapshots; NULL at first */
};

/* The number of the snapshot (from 1), or negative errno: -ENOSPC when there is no room for it. RESIDENT bytes, 0
 * for unknown. One thread of a process at a time. */
int piano__snapshot_take(struct piano__rec_view *view, uint32_t kind, uint64_t now_ns,
                         uint64_t resident);

#endif
