/* Chunks of definitions: several threads share one, so each of its parts is read as a chunk. */
#include <stddef.h>

#include "tool/load/rec.h"

/* A chunk of definitions at byte AT of the file, of which THERE bytes of payload are there: each
 * part in use becomes a chunk. Parts are never reused, so they need no copy. */
void rec_take_parts(struct rec_reader *r, uint64_t at, size_t there)
{
    const size_t most = PIANO_DEFINITION_BYTES - sizeof(struct piano__chunk);
    at += sizeof(struct piano__chunk);
    for (size_t from = 0; from + PIANO_DEFINITION_BYTES <= there; from += PIANO_DEFINITION_BYTES) {
        const struct piano__chunk *c = (const void *)(r->rec->map + at + from);
        /* Pairs with the release in target/trace/buffers.c: the head of the part is complete. */
        if (!__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE))
            continue;
        uint64_t used = __atomic_load_n(&c->used, __ATOMIC_ACQUIRE);
        if (used > most)
            rec_gap(r->rec, at + from + offsetof(struct piano__chunk, used), 0,
                    "a part of definitions says it holds more than fits");
        r->chunks[r->chunk_count++] = (struct rec_chunk){.at = at + from,
                                                         .type = PIANO_CHUNK_DEFINITIONS,
                                                         .index = c->index,
                                                         .payload = (const char *)(c + 1),
                                                         .used = used < most ? used : most,
                                                         .there = most};
    }
}
