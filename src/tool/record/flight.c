/* Each step takes the events that are new and passes them through the same machine and the same rules
 * for red flags as `piano report --polls`. Once a second, the flags of that second are printed, and
 * the figures are forgotten. A flag that stays is printed again after ten seconds, or when it is
 * twice as bad. */
#include "tool/record/flight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/follow.h"
#include "tool/profile/polls.h"
#include "tool/record/process.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum {
    STEP_BYTES = 128 << 10, /* about 25000 events, and as many as one step reads within 1 ms */
    SAID = 64,
    MOMENTS = 64, /* of the heap, in a window */
};
static const double FLAGS_S = 1, AGAIN_S = 10;
static const double two_sided_95 = 1.959964;

/* The heap at one time. */
struct moment {
    double at_s, live, variance;
};

struct flight {
    struct flight_wish wish;
    struct follow follow;
    struct profile empty; /* addresses have no names while the program runs */
    struct polls polls;
    double flags_s; /* when the flags are due */
    struct said {   /* by kind and subject; another one may replace it */
        uint32_t key;
        double at_s;
        uint64_t worst;
    } said[SAID];
    struct moment moments[MOMENTS];
    size_t moment_count;
    uint64_t fired_begin_ns; /* the poll that fired last */
};

struct flight *flight_open(const char *path, const struct flight_wish *wish, char *why, size_t size)
{
    struct flight *f = calloc(1, sizeof(*f));
    struct run_error error = {.text = "out of memory"};
    bool is_open = f && follow_open(&f->follow, path, &error) == 0;
    if (is_open && polls_live_start(&f->polls, &f->empty, &f->follow.rec) == 0) {
        f->wish = *wish;
        return f;
    }
    if (is_open)
        follow_close(&f->follow);
    snprintf(why, size, "%s", is_open ? "out of memory" : error.text);
    free(f);
    return NULL;
}

/* Takes the new events. */
static bool step(struct flight *f)
{
    return follow_step(&f->follow, STEP_BYTES) == 0 &&
           polls_live_go(&f->polls, f->follow.is_partial) == 0;
}

/* ---- red flags ---- */

static uint32_t key_of(const struct polls_flag *flag)
{
    uint32_t key = 1 + (uint32_t)flag->kind;
    for (const char *s = flag->subject ? flag->subject : ""; *s; s++)
        key = (key ^ (unsigned char)*s) * 0x01000193u;
    return key;
}

static void print_flag(struct flight *f, const struct polls_flag *flag, double now_s)
{
    uint32_t key = key_of(flag);
    struct said *said = &f->said[key % SAID];
    uint64_t worst = flag->worst_ns ? flag->worst_ns : flag->count;
    bool is_known = said->at_s > 0 && said->key == key && now_s - said->at_s < AGAIN_S;
    if (is_known && worst < 2 * said->worst)
        return;
    *said = (struct said){key, now_s, worst};
    say("%s!%s %s", say_colour(stderr) ? "\x1b[31m" : "", say_colour(stderr) ? "\x1b[0m" : "",
        flag->text);
}

static void print_flags(struct flight *f, double now_s)
{
    struct polls_flags flags;
    if (polls_flags_make(&flags, &f->polls) == 0)
        for (size_t i = 0; i < flags.count; i++)
            print_flag(f, &flags.list[i], now_s);
    polls_flags_release(&flags);
}

/* The program has ended, or its recording: prints the flags since the last second. */
static void print_last(struct flight *f, double now_s)
{
    f->follow.is_over = true;
    if (step(f))
        print_flags(f, now_s);
}

/* ---- conditions ---- */

/* The longest poll of this second, or one that is still open. */
static bool find_long_poll(struct flight *f, struct piano__fired *fired)
{
    const struct polls *p = &f->polls;
    struct poll poll;
    char thread[100], name[100];
    bool is_long = p->longest_count > 0 && polls_duration(&p->longest[0]) >= f->wish.poll_ns;
    if (is_long)
        poll = p->longest[0];
    else if (!polls_live_open(p, f->follow.until_ns, &poll) ||
             polls_duration(&poll) < f->wish.poll_ns)
        return false;
    if (poll.begin_ns == f->fired_begin_ns)
        return false;
    f->fired_begin_ns = poll.begin_ns;
    *fired = (struct piano__fired){.at_ns = poll.end_ns,
                                   .kind = PIANO_FIRED_LONG_POLL,
                                   .action = f->wish.poll_action,
                                   .value = (uint64_t)polls_duration(&poll),
                                   .limit = (uint64_t)f->wish.poll_ns};
    snprintf(fired->what, sizeof(fired->what), "%s on %s",
             say_safe(name, sizeof(name), p->groups[poll.group].name),
             polls_thread_name(thread, sizeof(thread), p, poll.track));
    return true;
}

static struct moment heap_now(const struct flight *f, double now_s)
{
    const struct piano__rec_header *h = &f->follow.rec.header;
    if (f->wish.resident_of > 0)
        return (struct moment){now_s, (double)process_anonymous(f->wish.resident_of), 0};
    return (struct moment){now_s, h->live_bytes, h->live_variance};
}

/* Adds the heap of NOW, at most MOMENTS times in a window. */
static void note_heap(struct flight *f, const struct moment *now)
{
    double now_s = now->at_s;
    const struct moment *last = f->moment_count ? &f->moments[f->moment_count - 1] : NULL;
    if (last && now_s - last->at_s < f->wish.window_s / (MOMENTS - 2))
        return;
    size_t old = 0; /* older than the window, except for the newest of them */
    while (old + 1 < f->moment_count && f->moments[old + 1].at_s <= now_s - f->wish.window_s)
        old++;
    old = old == 0 && f->moment_count == MOMENTS ? 1 : old;
    f->moment_count -= old;
    memmove(f->moments, f->moments + old, f->moment_count * sizeof(*f->moments));
    f->moments[f->moment_count++] = *now;
}

/* Compares with the heap a window before. What may be chance of the samples does not count. */
static bool find_growth(struct flight *f, double now_s, struct piano__fired *fired)
{
    const struct moment now = heap_now(f, now_s);
    note_heap(f, &now);
    const struct moment *then = &f->moments[0];
    if (now_s - then->at_s < f->wish.window_s || then->live <= 0)
        return false;
    double grown = now.live - then->live;
    double noise = two_sided_95 * sqrt(now.variance + then->variance);
    if (grown < f->wish.growth * then->live || grown < noise)
        return false;
    char from[UNITS_LEN], to[UNITS_LEN], window[UNITS_LEN];
    *fired = (struct piano__fired){.at_ns = f->follow.until_ns,
                                   .kind = PIANO_FIRED_GROWTH,
                                   .action = f->wish.growth_action,
                                   .value = (uint64_t)fmin(1000 * grown / then->live, 1e15),
                                   .limit = (uint64_t)(1000 * f->wish.growth)};
    snprintf(fired->what, sizeof(fired->what), "%sfrom %s to %s in %s",
             f->wish.resident_of > 0 ? "resident memory " : "", figure_bytes(from, then->live),
             figure_bytes(to, now.live), units_time(window, (int64_t)((now_s - then->at_s) * 1e9)));
    f->moment_count = 0; /* the next window begins here */
    return true;
}

bool flight_step(struct flight *f, double now_s, struct piano__fired *fired)
{
    bool is_fired = false;
    if (!step(f))
        return false;
    if (f->wish.growth > 0)
        is_fired = find_growth(f, now_s, fired);
    if (!is_fired && f->wish.poll_ns > 0)
        is_fired = find_long_poll(f, fired);
    if (f->flags_s == 0) {
        f->flags_s = now_s + FLAGS_S;
    } else if (now_s >= f->flags_s) {
        if (f->wish.watch)
            print_flags(f, now_s);
        polls_live_forget(&f->polls);
        f->flags_s = now_s + FLAGS_S;
    }
    return is_fired;
}

void flight_close(struct flight *f, double now_s)
{
    char skipped[UNITS_LEN];
    if (!f)
        return;
    if (f->wish.watch)
        print_last(f, now_s);
    if (f->follow.skipped > 0)
        say("%s of events came faster than they are watched: their red flags are in the report "
            "only",
            units_bytes(skipped, (int64_t)f->follow.skipped));
    polls_release(&f->polls);
    follow_close(&f->follow);
    free(f);
}

const char *flight_text(char *text, size_t size, const struct piano__fired *fired)
{
    char value[UNITS_LEN];
    if (fired->kind == PIANO_FIRED_GROWTH)
        snprintf(text, size, "the heap grew by %s (%s)",
                 units_percent(value, (double)fired->value / 1000), fired->what);
    else
        snprintf(text, size, "a poll took %s (%s)", units_time(value, (int64_t)fired->value),
                 fired->what);
    return text;
}
