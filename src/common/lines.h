/* NDJSON text into memory that is already there: no allocation, no stdio. A text that would run over its
 * end turns `full` and stays a valid prefix; callers throw such a line away. */
#ifndef PIANO_COMMON_LINES_H
#define PIANO_COMMON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/live.h"

struct piano__text {
    char *at;
    char *end;
    bool full;
};

void piano__text_puts(struct piano__text *text, const char *s);
void piano__text_int(struct piano__text *text, int64_t value);
/* A quoted JSON string; control characters escaped, everything else byte for byte. */
void piano__text_quote(struct piano__text *text, const char *s);
/* `,"key":value` */
void piano__text_field(struct piano__text *text, const char *key, int64_t value);

int64_t piano__ticks_ns(int64_t ticks, uint64_t ns_per_tick_32);

/* One element of "fns". */
void piano__line_tally(struct piano__text *text, uint32_t id, const struct piano__tally *tally,
                       uint64_t ns_per_tick_32);
/* The line that introduces a thread or says more about it; END_TICK < 0 while it runs. */
void piano__line_thread(struct piano__text *text, const struct piano__thread *thread,
                        const struct piano__live_header *header, int64_t end_tick);
/* The frames that have no line of their own. */
void piano__line_merged(struct piano__text *text, const struct piano__thread *thread,
                        uint64_t ns_per_tick_32);

/* HEAD, then `,"dropped":{...}}` and a newline. */
void piano__line_dropped(struct piano__text *text, const char *head,
                         const struct piano__dropped *dropped);

/* The calls counted inline since the head was settled. */
int64_t piano__head_pending(const struct piano__head *head);
/* Adds B to A. */
void piano__tally_add(struct piano__tally *a, const struct piano__tally *b);

/* The longest a line can get for COUNT functions: what a block's text must hold. */
size_t piano__line_bound(uint32_t count);

#endif
