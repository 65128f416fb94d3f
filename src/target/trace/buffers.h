/* Where a thread's events go: one EVENTS chunk at a time. */
#ifndef PIANO_TARGET_TRACE_BUFFERS_H
#define PIANO_TARGET_TRACE_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"

enum {
    PIANO_EVENTS_MAX = 256 * 1024 * 1024, /* bytes, by default */
    PIANO_EVENT_ROOM = 64,                /* no event is longer */
};

/* A thread has one from its first event to its end; then the next thread goes on in it. */
struct piano__buffer {
    uint8_t *at;  /* where the next event goes */
    uint8_t *end; /* no event begins behind this; at > end: there is no room, or no chunk */
    struct piano__chunk *chunk;
    uint64_t ticks;   /* of the newest event */
    uint64_t events;  /* written so far */
    uint64_t counted; /* of them in the header; under the lock */
    uint32_t next;    /* in the list of free ones, their number + 1 */
} __attribute__((aligned(64)));

static inline bool piano__buffer_is_full(const struct piano__buffer *b)
{
    return __builtin_expect(b->at > b->end, 0);
}

/* Chunks of events take at most MAX_BYTES. False when there is no memory. Once per recording. */
bool piano__buffers_init(uint64_t max_bytes);
/* In a forked child. */
void piano__buffers_forget(void);
/* A buffer for this thread, possibly with room left in its chunk; NULL when there is none. Lock-free. */
struct piano__buffer *piano__buffers_take(void);
void piano__buffers_give(struct piano__buffer *b);
/* A chunk for thread TID in place of the one that is full; false when there is none. */
bool piano__buffers_renew(struct piano__buffer *b, uint32_t tid);
/* The thread of B was left by a jump in the middle of an event: goes on after the last one that is whole. */
void piano__buffer_repair(struct piano__buffer *b);
/* Brings the header's count of events up to date. */
void piano__buffers_count(void);

#endif
