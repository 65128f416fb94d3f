/* The format of an EVENTS chunk: first struct piano__events_head, then events one after another,
 * `used` bytes in all (common/recording.h). A DEFINITIONS chunk has PIANO_DEFINITION_PARTS parts of
 * PIANO_DEFINITION_BYTES, each with a chunk header and the same format. Every event is
 *
 *   code    1 byte
 *   bytes   1 byte: how many bytes follow. A reader skips them if it does not know the code
 *   ticks   varint: since the previous event in this chunk, or since the head's
 *   fields  varints, in the order of the list below. New fields are appended after the known ones
 *
 * A varint has seven bits in each byte, the lowest first. The upper bit is set in all bytes but the
 * last.
 *
 * One thread at a time writes a chunk. After a thread has ended, another may continue in its chunk:
 * PIANO_EVENT_THREAD marks the change. The pairs of ticks and nanoseconds in the recording's header
 * and in the heads convert ticks to CLOCK_MONOTONIC. */
#ifndef PIANO_COMMON_EVENTS_H
#define PIANO_COMMON_EVENTS_H

#include <stdint.h>

struct piano__events_head {
    uint64_t tid; /* the thread of the first events */
    uint64_t ticks;
    uint64_t mono_ns; /* at `ticks` */
};

/* All events: X(code, number, member, fields), where each field is F(type, name). The member is the
 * event's part of struct recording_event (tool/load/event.h). A code is never used for another
 * event. Types of fields:
 *
 *   id       any number that the program chose
 *   name     number of a name in the recording; 0: none
 *   tid      a thread
 *   park     enum piano__park
 *   result   return value of a call + 1; 0: unknown, or the call failed
 *   depth    of a queue; a reader takes more than PIANO_EVENT_DEEPEST as PIANO_EVENT_DEEPEST
 *   number   zigzag-encoded
 *
 * CONTRIBUTING.md describes how to add one. */
#define PIANO_EVENT_LIST(X, F)                                                                     \
    /* The following events in this chunk are of another thread. */                                \
    X(THREAD, 1, thread, F(tid, tid))                                                              \
    /* This thread now runs as that worker. */                                                     \
    X(WORKER_START, 2, worker_start, F(id, worker) F(name, name))                                  \
    X(WORKER_STOP, 3, worker_stop, )                                                               \
    /* The place that spawned it is a name too. */                                                 \
    X(TASK_SPAWN, 4, task_spawn, F(id, task) F(name, name) F(name, place))                         \
    X(TASK_END, 5, task_end, F(id, task))                                                          \
    /* A task without a spawn event (a callback) has its name here. */                             \
    X(POLL_BEGIN, 6, poll_begin, F(id, task) F(name, name))                                        \
    X(POLL_END, 7, poll_end, )                                                                     \
    X(PARK, 8, park, F(park, kind))                                                                \
    X(UNPARK, 9, unpark, F(result, result))                                                        \
    /* The woken task. The waker is what this thread polls now. */                                 \
    X(WAKE, 10, wake, F(id, task))                                                                 \
    X(QUEUE, 11, queue, F(id, queue) F(depth, depth))                                              \
    X(MARK, 12, mark, F(name, name))                                                               \
    X(VALUE, 13, value, F(name, name) F(number, value))

enum { PIANO_EVENT_FIELDS = 3 /* no event has more */ };
#define PIANO_EVENT_DEEPEST ((uint64_t)1 << 40)

#define PIANO__EVENT_NO_FIELD(type, name)
#define PIANO__EVENT_BYTE(type, name) char name;

#define PIANO__EVENT_CODE(code, number, member, fields) PIANO_EVENT_##code = (number),
enum piano__event_code {
    PIANO_EVENT_UNKNOWN = 0, /* never written: a code that a reader does not know */
    PIANO_EVENT_LIST(PIANO__EVENT_CODE, PIANO__EVENT_NO_FIELD)
};

/* PIANO_EVENT_FIELDS_QUEUE is the number of fields of PIANO_EVENT_QUEUE. */
#define PIANO__EVENT_FIELDS(code, number, member, fields)                                          \
    PIANO_EVENT_FIELDS_##code = sizeof(struct {fields}),
enum { PIANO_EVENT_LIST(PIANO__EVENT_FIELDS, PIANO__EVENT_BYTE) };

#define PIANO__EVENT_CHECK(code, number, member, fields)                                           \
    _Static_assert((number) > 0 && (number) < 256, #code " does not fit into a byte");             \
    _Static_assert((int)PIANO_EVENT_FIELDS_##code <= PIANO_EVENT_FIELDS, #code ": many fields");
PIANO_EVENT_LIST(PIANO__EVENT_CHECK, PIANO__EVENT_NO_FIELD)

static inline uint64_t piano__zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value < 0 ? -1 : 0);
}

static inline int64_t piano__unzigzag(uint64_t coded)
{
    return (int64_t)(coded >> 1) ^ -(int64_t)(coded & 1);
}

enum piano__park {
    PIANO_PARK_API = 0, /* piano_park */
    PIANO_PARK_EPOLL = 1,
    PIANO_PARK_POLL = 2,
    PIANO_PARK_SELECT = 3,
    PIANO_PARK_URING = 4,
    PIANO_PARK_CONDITION = 5,
    PIANO_PARK_SEMAPHORE = 6,
    PIANO_PARK_BARRIER = 7, /* OpenMP: barrier of a team */
    PIANO_PARK_TASKS = 8,   /* OpenMP: taskwait, the end of a taskgroup */
    PIANO_PARK_IDLE = 9,    /* OpenMP: a worker between two regions */
};
enum { PIANO_PARKS = PIANO_PARK_IDLE + 1 };

#endif
