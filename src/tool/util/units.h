/* Formats numbers for people. Functions with a TEXT write to it (UNITS_LEN bytes are enough) and
 * return it. */
#ifndef PIANO_TOOL_UTIL_UNITS_H
#define PIANO_TOOL_UTIL_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum { UNITS_LEN = 32 };

const char *units_time(char *text, int64_t ns);            /* 812ns 38.1us 145.2ms 2.4s */
const char *units_time_signed(char *text, int64_t ns);     /* +38.1us -2.0ms 0ns */
const char *units_bytes(char *text, int64_t bytes);        /* 512B 1.9MB, in steps of 1024 */
const char *units_bytes_signed(char *text, int64_t bytes); /* +1.9MB */
const char *units_count(char *text, int64_t count);        /* 3000, not abbreviated */
const char *units_count_signed(char *text, int64_t count); /* +3000 */
const char *units_percent(char *text, double part);        /* 0.125 -> 12.5% */
const char *units_percent_signed(char *text, double part); /* +12.5% */
const char *units_age(char *text, int64_t seconds);        /* 5s 12m 3h 2d ago; "just now" */
const char *units_plural(uint64_t count);                  /* "s", or "" for 1 */

/* Parses 1, 1000, 64K, 64KB, 64KiB, 1.5M, 2G: a number of bytes from 1 to 2^48. Returns 0 if TEXT
 * is invalid. */
uint64_t units_parse_bytes(const char *text);

#endif
