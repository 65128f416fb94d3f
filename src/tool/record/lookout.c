/* The recording may not exist yet, or may be replaced by that of the program that the process
 * becomes by exec. So each step looks for the newest one. If it cannot be opened now, the next step
 * tries again; if that never works, the end says why. */
#include "tool/record/lookout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool/record/forecast.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static const double AGAIN_S = 10; /* between two times that a condition comes true */

static const double FORECAST_S = 0.25;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void lookout_start(struct lookout *l, const struct record *r, double now)
{
    *l = (struct lookout){.wish = r->flight};
    l->wish.resident_of = r->pid;
    l->due_s = flight_is_asked(&l->wish) ? now : 0;
    l->forecast_s = r->events ? now + FORECAST_S : 0;
}

double lookout_due(const struct lookout *l, double latest_s)
{
    double due = latest_s;
    if (l->due_s > 0)
        due = fmin(due, l->due_s);
    return l->forecast_s > 0 ? fmin(due, l->forecast_s) : due;
}

/* Looks less and less often: the forecast is wanted before the ring is full. */
static void look_ahead(struct lookout *l, struct recordings *recordings, double now)
{
    struct piano__rec_header h;
    char text[300];
    recordings_find(recordings);
    const char *newest = recordings_newest(recordings);
    double since = now - (double)recordings->since_ns / 1e9;
    l->forecast_s = now + fmax(FORECAST_S, since / 8);
    if (!newest || recordings_header(newest, &h) != 0 ||
        !forecast(text, sizeof text, &h, (uint64_t)(now * 1e9)))
        return;
    say("%s", text);
    l->forecast_s = 0;
}

/* Ends the recording or takes a snapshot. Returns whether it was ended. */
static bool act(struct recordings *recordings, struct sampler *cpu,
                const struct piano__fired *fired)
{
    char text[300], at[UNITS_LEN];
    uint64_t bytes = 0;
    bool is_end = fired->action == PIANO_FIRED_END;
    recordings_snapshot(recordings, PIANO_SNAPSHOT_ASKED, &bytes);
    recordings_fire(recordings, fired);
    if (is_end && cpu)
        sampler_stop(cpu);
    say("after %s: %s; %s", units_time(at, (int64_t)(fired->at_ns - recordings->since_ns)),
        flight_text(text, sizeof text, fired),
        is_end ? "the recording ends here, the program goes on" : "a snapshot was taken");
    return is_end;
}

static void forget_flight(struct lookout *l)
{
    flight_close(l->flight, now_s());
    free(l->path);
    free(l->unwatched);
    l->flight = NULL;
    l->path = l->unwatched = NULL;
}

/* After an exec the program writes to another recording. */
static bool follow_newest(struct lookout *l, struct recordings *recordings)
{
    char why[300] = "";
    recordings_find(recordings);
    const char *newest = recordings_newest(recordings);
    bool is_same = newest && l->path && strcmp(newest, l->path) == 0;
    if (!newest || (is_same && l->flight))
        return l->flight != NULL;
    forget_flight(l);
    l->path = strdup(newest);
    l->flight = l->path ? flight_open(newest, &l->wish, why, sizeof why) : NULL;
    l->unwatched = l->flight ? NULL : strdup(why);
    return l->flight != NULL;
}

void lookout_stop(struct lookout *l, struct recordings *recordings)
{
    if (l->due_s > 0)
        (void)follow_newest(l,
                            recordings); /* a short program ended before its recording was found */
    if (l->unwatched)
        say("the recording was not watched: %s", *l->unwatched ? l->unwatched : "out of memory");
    forget_flight(l);
    flights_close(&l->others, now_s());
    l->due_s = l->forecast_s = 0;
}

bool lookout_step(struct lookout *l, struct recordings *recordings, struct sampler *cpu, double now)
{
    struct piano__fired fired;
    if (l->forecast_s > 0 && now >= l->forecast_s)
        look_ahead(l, recordings, now);
    if (l->due_s <= 0 || now < l->due_s)
        return false;
    l->due_s = now + 1.0 / FLIGHT_STEPS;
    bool is_fired = follow_newest(l, recordings) && flight_step(l->flight, now, &fired);
    is_fired = is_fired || flights_step(&l->others, recordings, &l->wish, now, &fired);
    if (!is_fired || now < l->again_s)
        return false;
    l->again_s = now + AGAIN_S;
    if (!act(recordings, cpu, &fired))
        return false;
    lookout_stop(l, recordings);
    return true;
}
