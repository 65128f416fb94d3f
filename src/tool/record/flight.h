/* Watches the recording of a program that runs: red flags as they happen (`--watch`), and conditions
 * that take a snapshot or end the recording (`--on-long-poll`, `--on-growth`).
 *
 * A step costs a bounded amount of work, whatever the program does: of too many events, only the
 * newest are read. */
#ifndef PIANO_TOOL_RECORD_FLIGHT_H
#define PIANO_TOOL_RECORD_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/recording.h"

/* What the user asked for. */
struct flight_wish {
    bool watch;
    int64_t poll_ns; /* a poll this long; 0: not asked for */
    enum piano__fired_action poll_action;
    double growth;   /* part of the live bytes: 0.1 is 10 %; 0: not asked for */
    double window_s; /* in this time */
    enum piano__fired_action growth_action;
    /* A process that ran before the recording: its live bytes are not known, so its resident memory
     * counts. 0: live bytes. */
    pid_t resident_of;
};

static inline bool flight_is_asked(const struct flight_wish *w)
{
    return w->watch || w->poll_ns > 0 || w->growth > 0;
}

struct flight; /* of one recording */

/* NULL if the recording at PATH cannot be followed; the reason, safe to show, is in WHY. */
struct flight *flight_open(const char *path, const struct flight_wish *wish, char *why,
                           size_t size);
/* Looks at what is new at NOW_S, and prints red flags. Returns whether a condition came true; *FIRED
 * then says what to do. */
bool flight_step(struct flight *f, double now_s, struct piano__fired *fired);
/* The recording is over: prints the last red flags and what was not watched, and frees F, which may
 * be NULL. */
void flight_close(struct flight *f, double now_s);
/* "a poll took 120.0ms (read on worker 2)", safe to show, in TEXT. */
const char *flight_text(char *text, size_t size, const struct piano__fired *fired);

enum { FLIGHT_STEPS = 4 /* a second */ };

#endif
