/* Writes the run file's header, the names of functions registered later, and the v1 file. */
#ifndef PIANO_TARGET_SPAN_HEADER_H
#define PIANO_TARGET_SPAN_HEADER_H

#include <stdint.h>

void piano__header_write(int64_t now_ms, uint32_t count);
void piano__header_write_more(uint32_t from, uint32_t to);
/* `<stem>.json`: the sums of a run in which nothing repeated. */
void piano__header_write_v1(void);

#endif
