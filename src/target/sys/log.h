/* A log of the recording: records one after another, in chunks of one type. One writer at a time. */
#ifndef PIANO_TARGET_SYS_LOG_H
#define PIANO_TARGET_SYS_LOG_H

#include <stdint.h>

#include "common/recording.h"

/* Zero at first. */
struct piano__log {
    struct piano__chunk *chunk; /* at hand */
    uint64_t chunks;            /* so far */
};

/* Room for a record of BYTES, in a new chunk of TYPE when need be; NULL when there is none. */
void *piano__log_room(struct piano__log *log, uint32_t type, uint32_t bytes);
/* The record is whole: readers may have it. */
void piano__log_commit(struct piano__log *log, uint32_t bytes);

#endif
