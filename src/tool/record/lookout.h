/* Watches the newest recording of a program by the clock, and those of the processes that it
 * started: red flags, the conditions of a flight recorder, and how long the room for events
 * lasts. */
#ifndef PIANO_TOOL_RECORD_LOOKOUT_H
#define PIANO_TOOL_RECORD_LOOKOUT_H

#include <stdbool.h>

#include "tool/record/flights.h"
#include "tool/record/record.h"
#include "tool/record/recordings.h"
#include "tool/record/sampler.h"

struct lookout {
    struct flight_wish wish;
    struct flight *flight; /* NULL: no recording yet */
    char *path;            /* of it */
    char *unwatched;       /* why the newest recording cannot be followed; NULL: it can */
    double due_s;          /* 0: not asked for, or over */
    double forecast_s;     /* the same, for the room for events */
    double again_s;        /* no condition comes true before */
    struct flights others; /* of processes that the program started */
};

void lookout_start(struct lookout *l, const struct record *r, double now_s);
/* Does what is due. Returns true if a condition came true that ends the recording: then it is
 * ended, and CPU (may be NULL) takes no more samples. */
bool lookout_step(struct lookout *l, struct recordings *recordings, struct sampler *cpu,
                  double now_s);
/* When the next step is due, at most LATEST_S. */
double lookout_due(const struct lookout *l, double latest_s);
/* The program has ended: looks at the rest, and releases everything. */
void lookout_stop(struct lookout *l, struct recordings *recordings);

#endif
