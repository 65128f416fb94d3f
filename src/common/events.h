/* The format of an EVENTS chunk: first struct piano__events_head, then events one after another,
 * `used` bytes in all (common/recording.h). Every event is
 *
 *   code    1 byte
 *   bytes   1 byte: how many bytes follow. A reader skips them if it does not know the code
 *   ticks   varint: since the previous event in this chunk, or since the head's
 *   fields  varints, listed at each code below. New fields are appended after the known ones
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

enum piano__event_code {
    PIANO_EVENT_THREAD = 1,       /* tid */
    PIANO_EVENT_WORKER_START = 2, /* worker, name: this thread now runs as that worker */
    PIANO_EVENT_WORKER_STOP = 3,
    PIANO_EVENT_TASK_SPAWN = 4, /* task, name, name of the place that spawned it */
    PIANO_EVENT_TASK_END = 5,   /* task */
    PIANO_EVENT_POLL_BEGIN = 6, /* task; its name if it has no spawn event (a callback), else 0 */
    PIANO_EVENT_POLL_END = 7,
    PIANO_EVENT_PARK = 8,   /* enum piano__park */
    PIANO_EVENT_UNPARK = 9, /* return value of the call + 1, or 0 */
    PIANO_EVENT_WAKE = 10,  /* the woken task; the waker is what this thread polls now */
    PIANO_EVENT_QUEUE = 11, /* queue, depth */
    PIANO_EVENT_MARK = 12,  /* name */
    PIANO_EVENT_VALUE = 13, /* name, zigzag-encoded value */
};

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

#endif
