/* The buffer that a thread writes its events to. Definitions (tasks, workers) go to a log that is
 * never overwritten, all other events to a ring: one chunk of the ring at a time, and one part of a
 * chunk of the log. */
#ifndef PIANO_TARGET_TRACE_BUFFERS_H
#define PIANO_TARGET_TRACE_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"

enum {
    PIANO_EVENTS_MAX = 448 * 1024 * 1024, /* default limit of the ring in bytes */
    PIANO_DEFINITIONS_SHARE = 8,          /* the log takes at most 1/8 of that */
    PIANO_EVENT_ROOM = 64,                /* no event is longer */
};

struct piano__writer {
    uint8_t *at;                /* position of the next event */
    uint8_t *end;               /* no event begins after this; at > end: no room, or no chunk */
    struct piano__chunk *chunk; /* of the log: a part of one */
    uint64_t ticks;             /* time of the newest event */
    uint64_t events;            /* events written so far */
    uint64_t counted;           /* the part of `events` already in the header; under the lock */
};

/* A thread has one from its first event to its end. Then another thread continues in it. */
struct piano__buffer {
    struct piano__writer ring;
    uint64_t before; /* `previous` of the ring's next chunk */
    uint64_t begun;  /* `ring.events` when its chunk began */
    struct piano__writer log;
    uint32_t next; /* number + 1 of the next free buffer */
} __attribute__((aligned(64)));

static inline bool piano__writer_is_full(const struct piano__writer *w)
{
    return __builtin_expect(w->at > w->end, 0);
}

/* Limits the chunks of the ring to MAX_BYTES. Returns false if there is no memory. Once per
 * recording. */
bool piano__buffers_init(uint64_t max_bytes);
/* Call in a forked child. */
void piano__buffers_forget(void);
/* Returns a buffer for this thread, possibly with room left in its chunk; NULL if there is none.
 * Lock-free. */
struct piano__buffer *piano__buffers_take(void);
void piano__buffers_give(struct piano__buffer *b);
/* Replaces the full chunk of B's ring by one for thread TID. Returns false if there is none. */
bool piano__buffers_renew(struct piano__buffer *b, uint32_t tid);
/* The same for B's log. */
bool piano__buffers_renew_log(struct piano__buffer *b, uint32_t tid);
/* A signal handler has jumped out of an event of this thread: continues after the last complete
 * event. */
void piano__buffer_repair(struct piano__buffer *b);
/* Updates the header's count of events. */
void piano__buffers_count(void);

#endif
