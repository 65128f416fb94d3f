/* When the next snapshot by the clock is due. */
#ifndef PIANO_TOOL_RECORD_SERIES_H
#define PIANO_TOOL_RECORD_SERIES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SERIES_PER_STEP = 32, /* snapshots between one doubling of the interval and the next */
    SERIES_STEP_BYTES = 8 * 1024 * 1024, /* or so many bytes of them */
};

struct series {
    double interval_s; /* 0 = there are none */
    double due_s;      /* on the clock of the caller */
    bool grows;        /* the interval doubles as it goes on */
    unsigned taken;    /* since the last doubling */
    uint64_t bytes;    /* likewise */
};

/* EVERY_S: 0 = none, negative = the usual series. */
void series_start(struct series *s, double every_s, double now_s);
bool series_is_due(const struct series *s, double now_s);
/* One was taken, of so many BYTES, or could not be. */
void series_advance(struct series *s, double now_s, uint64_t bytes);

#endif
