/* A log of the recording: records one after another, in chunks of one type. One writer at a
 * time. */
#ifndef PIANO_TARGET_SYS_LOG_H
#define PIANO_TARGET_SYS_LOG_H

#include <stdint.h>

#include "common/recording.h"

/* Initially zero. */
struct piano__log {
    struct piano__chunk *chunk; /* current chunk */
    uint64_t chunks;            /* number of chunks so far */
};

/* Returns room for a record of BYTES, in a new chunk of TYPE if necessary; NULL if there is
 * none. */
void *piano__log_room(struct piano__log *log, uint32_t type, uint32_t bytes);
/* Publishes the record. */
void piano__log_commit(struct piano__log *log, uint32_t bytes);

#endif
