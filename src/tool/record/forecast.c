/* The rate so far is the forecast: a program that starts slowly fills its ring later than it says, and
 * the report says what the events cover in fact. */
#include "tool/record/forecast.h"

#include <stdio.h>

#include "tool/util/units.h"

enum { KNOWN_FROM = 8 };

bool forecast(char *text, size_t size, const struct piano__rec_header *h, uint64_t now_ns)
{
    const struct piano__trace *t = &h->trace;
    char rate[UNITS_LEN], lasts[UNITS_LEN];
    if (t->ring_most == 0 || t->ring_most > PIANO_REC_MAX_CHUNKS ||
        t->ring_chunks < t->ring_most / KNOWN_FROM || now_ns <= h->start_mono_ns ||
        t->recycled > UINT32_MAX)
        return false;
    double chunks = (double)(t->ring_chunks + t->recycled);
    double seconds = (double)(now_ns - h->start_mono_ns) / 1e9;
    double a_second = chunks * PIANO_REC_CHUNK_BYTES / seconds;
    double room = (double)t->ring_most * PIANO_REC_CHUNK_BYTES;
    snprintf(
        text, size,
        "events come at %s a second: the recording keeps those of the last %s, then the oldest "
        "are overwritten",
        units_bytes(rate, (int64_t)a_second), units_time(lasts, (int64_t)(room / a_second * 1e9)));
    return true;
}
