/* A record never crosses a chunk boundary: the rest of a chunk stays unused. */
#include "target/sys/log.h"

#include <stddef.h>

#include "target/sys/recording.h"

void *piano__log_room(struct piano__log *log, uint32_t type, uint32_t bytes)
{
    if (bytes > PIANO_REC_PAYLOAD)
        return NULL;
    if (!log->chunk || log->chunk->used + bytes > PIANO_REC_PAYLOAD) {
        struct piano__chunk *fresh = piano__recording_claim(type, log->chunks);
        if (!fresh)
            return NULL;
        log->chunk = fresh;
        log->chunks++;
    }
    return (char *)(log->chunk + 1) + log->chunk->used;
}

void piano__log_commit(struct piano__log *log, uint32_t bytes)
{
    /* Pairs with the readers' acquire load of `used`: the record is complete. */
    __atomic_store_n(&log->chunk->used, log->chunk->used + bytes, __ATOMIC_RELEASE);
}
