/* Writes NDJSON text into a fixed buffer: no allocation, no stdio. When the text would overflow, it
 * sets `full` and stays a valid prefix. Callers discard such a line. */
#ifndef PIANO_COMMON_LINES_H
#define PIANO_COMMON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/live.h"

struct piano__text {
    char *at;
    char *end;
    bool full;
};

enum { PIANO_DIGITS = 24 }; /* room for any integer */

/* Writes VALUE at AT, which must have PIANO_DIGITS bytes of room. Returns the end of the digits. */
char *piano__digits(char *at, int64_t value);

static inline bool piano__text_has(struct piano__text *text, size_t len)
{
    if (text->full || (size_t)(text->end - text->at) < len)
        text->full = true;
    return !text->full;
}

/* Inline, so that the compiler knows the length of a literal: a busy program writes about a hundred
 * of these per frame. */
static inline void piano__text_puts(struct piano__text *text, const char *s)
{
    size_t len = strlen(s);
    if (!piano__text_has(text, len))
        return;
    memcpy(text->at, s, len);
    text->at += len;
}

static inline void piano__text_int(struct piano__text *text, int64_t value)
{
    if (piano__text_has(text, PIANO_DIGITS))
        text->at = piano__digits(text->at, value);
}

/* `,"key":value` */
static inline void piano__text_field(struct piano__text *text, const char *key, int64_t value)
{
    size_t len = strlen(key);
    if (!piano__text_has(text, len + 4 + PIANO_DIGITS))
        return;
    char *at = text->at;
    memcpy(at, ",\"", 2);
    memcpy(at + 2, key, len);
    memcpy(at + 2 + len, "\":", 2);
    text->at = piano__digits(at + 4 + len, value);
}

/* Writes a quoted JSON string. Control characters are escaped, all other bytes are copied. */
void piano__text_quote(struct piano__text *text, const char *s);

int64_t piano__ticks_ns(int64_t ticks, uint64_t ns_per_tick_32);

/* Writes one element of "fns". */
void piano__line_tally(struct piano__text *text, uint32_t id, const struct piano__tally *tally,
                       uint64_t ns_per_tick_32);
/* Writes the line that introduces a thread or updates it. END_TICK < 0 while the thread runs. LOOK
 * is the last reading of its CPU time; NULL: the one in THREAD. */
void piano__line_thread(struct piano__text *text, const struct piano__thread *thread,
                        const struct piano__offcpu *look, const struct piano__live_header *header,
                        int64_t end_tick);
/* Write frames without lines of their own: those of one entry of MERGED, and the self times of one
 * function in them. */
void piano__line_merged(struct piano__text *text, uint32_t thread,
                        const struct piano__merged *merged, uint32_t entry,
                        uint64_t ns_per_tick_32);
void piano__line_merged_fn(struct piano__text *text, uint32_t thread,
                           const struct piano__merged *merged, uint32_t fn);

/* Writes HEAD, then `,"dropped":{...}}` and a newline. */
void piano__line_dropped(struct piano__text *text, const char *head,
                         const struct piano__dropped *dropped);

bool piano__tally_is_empty(const struct piano__tally *tally);
/* Adds B to A. */
void piano__tally_add(struct piano__tally *a, const struct piano__tally *b);

/* The length of the longest possible line for COUNT functions. A block's text must hold it. */
size_t piano__line_bound(uint32_t count);

#endif
