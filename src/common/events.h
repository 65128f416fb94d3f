/* Events, as they lie in an EVENTS chunk: first struct piano__events_head, then events one after another, `used` bytes in all
 * (common/recording.h). Every event is
 *
 *   code    1 byte
 *   bytes   1 byte: how many follow. A reader that does not know the code goes on behind them
 *   ticks   varint: since the event before it in this chunk, or since the head's
 *   fields  varints, as said at the code; fields a reader does not know are behind those it does
 *
 * A varint has seven bits in each byte, the lowest first; the upper bit is set in all but the last.
 *
 * A chunk is written by one thread at a time. When a thread ends, another may go on in its chunk: PIANO_EVENT_THREAD tells.
 * Ticks become CLOCK_MONOTONIC by the pairs in the recording's header and in the heads. */
#ifndef PIANO_COMMON_EVENTS_H
#define PIANO_COMMON_EVENTS_H

#include <stdint.h>

struct piano__events_head {
    uint64_t tid; /* whose events come first */
    uint64_t ticks;
    uint64_t mono_ns; /* at `ticks` */
};

enum piano__event_code {
    PIANO_EVENT_THREAD = 1,       /* tid */
    PIANO_EVENT_WORKER_START = 2, /* worker, name: this thread is that worker from now on */
    PIANO_EVENT_WORKER_STOP = 3,
    PIANO_EVENT_TASK_SPAWN = 4, /* task, name, name of the place it is spawned at */
    PIANO_EVENT_TASK_END = 5,   /* task */
    PIANO_EVENT_POLL_BEGIN = 6, /* task; its name when it has no spawn (a callback), else 0 */
    PIANO_EVENT_POLL_END = 7,
    PIANO_EVENT_PARK = 8,   /* enum piano__park */
    PIANO_EVENT_UNPARK = 9, /* what the call returned + 1, or 0 */
    PIANO_EVENT_WAKE = 10,  /* task that is woken, by what this thread polls now */
    PIANO_EVENT_QUEUE = 11, /* queue, depth */
    PIANO_EVENT_MARK = 12,  /* name */
    PIANO_EVENT_VALUE = 13, /* name, value: zigzag */
};

enum piano__park {
    PIANO_PARK_API = 0, /* piano_park */
    PIANO_PARK_EPOLL = 1,
    PIANO_PARK_POLL = 2,
    PIANO_PARK_SELECT = 3,
    PIANO_PARK_URING = 4,
    PIANO_PARK_CONDITION = 5,
    PIANO_PARK_SEMAPHORE = 6,
    PIANO_PARK_BARRIER = 7, /* OpenMP: of a team */
    PIANO_PARK_TASKS = 8,   /* OpenMP: taskwait, the end of a taskgroup */
    PIANO_PARK_IDLE = 9,    /* OpenMP: a worker between two regions */
};

#endif
