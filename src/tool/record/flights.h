/* Watches the recordings of the processes that the program started, as flight.h watches its own. */
#ifndef PIANO_TOOL_RECORD_FLIGHTS_H
#define PIANO_TOOL_RECORD_FLIGHTS_H

#include "tool/record/flight.h"
#include "tool/record/recordings.h"

enum { FLIGHTS_MOST = 32 };

/* Start with zeros. */
struct flights {
    struct flights_one {
        pid_t pid;
        unsigned image;
        struct flight *flight;
    } list[FLIGHTS_MOST];
    size_t count;
    size_t next; /* the one to look at next */
};

/* Looks at one of the processes that run, in turn, so a step costs the same however many there are.
 * Returns whether a condition came true in it. */
bool flights_step(struct flights *f, const struct recordings *r, const struct flight_wish *wish,
                  double now_s, struct piano__fired *fired);
/* Prints the last red flags of all. */
void flights_close(struct flights *f, double now_s);

#endif
