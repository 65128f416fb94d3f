/* Takes a snapshot of a heap recording: by the tool from outside, or by the program itself. */
#ifndef PIANO_COMMON_SNAPSHOT_H
#define PIANO_COMMON_SNAPSHOT_H

#include <stdint.h>

#include "common/recording.h"

/* A recording as one process has mapped it. */
struct piano__rec_view {
    struct piano__rec_header *header;
    /* Returns chunk NUMBER, mapped, or NULL if it is not available. */
    struct piano__chunk *(*chunk)(struct piano__rec_view *view, uint64_t number);
    /* Claims a new chunk and sets its `ready`. Returns NULL if there is no room. */
    struct piano__chunk *(*claim)(struct piano__rec_view *view, uint32_t type, uint64_t index);
    struct piano__chunk *log; /* where this process writes snapshots; NULL at first */
};

/* Returns the number of the snapshot (from 1), or a negative errno: -ENOSPC if there is no room for
 * it. RESIDENT is in bytes, 0 if unknown. One thread of a process at a time. */
int piano__snapshot_take(struct piano__rec_view *view, uint32_t kind, uint64_t now_ns,
                         uint64_t resident);

#endif
