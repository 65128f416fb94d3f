/* Decodes one event: reads the varints, and converts them to the fields of the event. All readers
 * of events use this. */
#include "tool/load/rec.h"

enum { EVENT_HEAD = 2, VARINT_BYTES = 10 };

static bool long_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    const unsigned char *p = *at;
    uint64_t v = 0;
    for (unsigned shift = 0; p < end && shift < 7 * VARINT_BYTES; shift += 7) {
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p++ & 0x80)) {
            *at = p;
            *value = v;
            return shift < 63 || p[-1] <= 1;
        }
    }
    return false;
}

/* Reads a number at *AT and advances *AT. Returns false if it does not end before END or exceeds 64
 * bits. Most numbers have one byte. */
static inline bool varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    if (*at == end || **at & 0x80)
        return long_varint(at, end, value);
    *value = *(*at)++;
    return true;
}

/* ---- a field of each type ---- */

static inline event_id decode_id(uint64_t raw)
{
    return raw;
}

static inline event_name decode_name(uint64_t raw)
{
    return raw;
}

static inline event_tid decode_tid(uint64_t raw)
{
    return (event_tid)raw;
}

static inline event_park decode_park(uint64_t raw)
{
    return raw < UINT8_MAX ? (event_park)raw : UINT8_MAX;
}

static inline event_result decode_result(uint64_t raw)
{
    return raw;
}

static inline event_depth decode_depth(uint64_t raw)
{
    return (event_depth)(raw < PIANO_EVENT_DEEPEST ? raw : PIANO_EVENT_DEEPEST);
}

static inline event_number decode_number(uint64_t raw)
{
    return piano__unzigzag(raw);
}

/* ---- the event ---- */

#define DECODE_FIELD(type, name) to->name = decode_##type(*raw++);
#define DECODE_EVENT(code_, number, member, fields)                                                \
    case PIANO_EVENT_##code_: {                                                                    \
        struct event_##member *to = &e->member;                                                    \
        (void)to;                                                                                  \
        fields e->code = PIANO_EVENT_##code_;                                                      \
        return;                                                                                    \
    }

/* RAW has PIANO_EVENT_FIELDS numbers. */
static void decode(unsigned code, const uint64_t *raw, struct recording_event *e)
{
    switch (code) {
        PIANO_EVENT_LIST(DECODE_EVENT, DECODE_FIELD)
    default:
        e->code = PIANO_EVENT_UNKNOWN;
    }
}

size_t rec_event_skip(const char *from, const char *to, uint64_t *ticks)
{
    const unsigned char *at = (const unsigned char *)from, *end = (const unsigned char *)to;
    if (end - at < EVENT_HEAD || end - at - EVENT_HEAD < at[1])
        return 0;
    end = at + EVENT_HEAD + at[1];
    at += EVENT_HEAD;
    return varint(&at, end, ticks) ? (size_t)((const char *)end - from) : 0;
}

size_t rec_event_at(const char *from, const char *to, struct rec_event *e)
{
    const unsigned char *at = (const unsigned char *)from, *end = (const unsigned char *)to;
    uint64_t raw[PIANO_EVENT_FIELDS] = {0};
    if (end - at < EVENT_HEAD || end - at - EVENT_HEAD < at[1])
        return 0;
    unsigned code = at[0];
    end = at + EVENT_HEAD + at[1];
    at += EVENT_HEAD;
    if (!varint(&at, end, &e->ticks))
        return 0;
    e->bad = false;
    for (int i = 0; i < PIANO_EVENT_FIELDS && at < end; i++)
        if (!varint(&at, end, &raw[i])) {
            raw[i] = 0;
            e->bad = true;
            break;
        }
    decode(code, raw, &e->event);
    return (size_t)((const char *)end - from);
}
