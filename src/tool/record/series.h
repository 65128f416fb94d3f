/* Schedule of the periodic snapshots. */
#ifndef PIANO_TOOL_RECORD_SERIES_H
#define PIANO_TOOL_RECORD_SERIES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SERIES_PER_STEP = 32,                /* snapshots before the interval doubles */
    SERIES_STEP_BYTES = 8 * 1024 * 1024, /* or bytes of them */
};

struct series {
    double interval_s; /* 0: no snapshots */
    double due_s;      /* on the caller's clock */
    bool grows;        /* the interval doubles over time */
    unsigned taken;    /* since the last doubling */
    uint64_t bytes;    /* the same */
};

/* EVERY_S: 0: none, negative: the default series. */
void series_start(struct series *s, double every_s, double now_s);
bool series_is_due(const struct series *s, double now_s);
/* A snapshot of BYTES was taken, or could not be taken. */
void series_advance(struct series *s, double now_s, uint64_t bytes);

#endif
