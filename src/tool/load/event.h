/* One event of a recording, decoded: every field has its type and is within its limits. The events
 * and their fields are listed in common/events.h. */
#ifndef PIANO_TOOL_LOAD_EVENT_H
#define PIANO_TOOL_LOAD_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/events.h"

/* Types of fields. */
typedef uint64_t event_id;
typedef uint64_t event_name; /* for `recording_name_of` */
typedef uint32_t event_tid;
typedef uint8_t event_park; /* enum piano__park, or PIANO_PARKS and more: unknown */
typedef uint64_t event_result;
typedef int64_t event_depth; /* 0 to PIANO_EVENT_DEEPEST */
typedef int64_t event_number;

#define EVENT_FIELD(type, name) event_##type name;
#define EVENT_PART(code, number, member, fields)                                                   \
    struct event_##member {                                                                        \
        fields                                                                                     \
    } member;

/* `code` says which member is valid. A switch over `code` needs no default: the compiler then
 * reports a missing event. */
struct recording_event {
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint32_t track;
    bool after_gap;              /* events of this thread are missing before it */
    enum piano__event_code code; /* PIANO_EVENT_UNKNOWN: one that is not in the list */
    union {
        PIANO_EVENT_LIST(EVENT_PART, EVENT_FIELD)
    };
};

#undef EVENT_FIELD
#undef EVENT_PART

#endif
