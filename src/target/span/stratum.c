/* Chooses how many calls to time.
 *
 * For a given total cost of timing, the variance is least when the probability of timing a call is
 * proportional to the root mean square of its cost. So stratum = cost of a sample / (density x root
 * mean square). All functions of a thread share one density. It is adapted so that timed calls take
 * 1/`target` of the time. A function with many calls per frame gets PIANO_FRAME_STRATA strata per
 * frame if that is cheap. If the variance of its calls implies an error above ERROR_FRAME in a
 * usual frame, or above ERROR_RUN in the run so far, its strata become smaller, down to timing
 * every call. This stops when timed calls take half of the time. bench/sampling.py compares other
 * schemes. */
#include "target/span/stratum.h"

#include "common/lines.h"
#include "target/span/run.h"
#include "target/span/watch.h"

enum {
    SHARE = 64, /* probes of one function may take 1/SHARE of the time before it is sampled */
    PROBES = 2, /* timed calls for one sample */
    SQUARE_MEMORY = 128,
    BUDGET_NS = 500000,
    TARGET_NS = 5000000,
    RARE = 4, /* a call is rare if it takes RARE_NS more than RARE times the price */
    RARE_NS = 500,
    RARE_PART = 8, /* rare calls that take a smaller part of the time are interrupts */
    SEEN_LEAST = 256,
    SEEN_MOST = 4096,
    SEEN_EVER = 1 << 30, /* ticks */
    FRAME_LEAST_NS = 5000,
    FRAME_PART = 16,
    BRAKE_MOST = 16 << 6,
    DENSITY_UNIT = 1 << 16,
    DENSITY_FIRST = DENSITY_UNIT / 8,
    DENSITY_LEAST = DENSITY_UNIT / 1024,
    DENSITY_MOST = DENSITY_UNIT / 2,
    TARGET = 64,
    TARGET_FIRST = 8, /* until the variance of costs is known */
};

/* Largest error over a frame and over the run, as a fraction of the time. */
#define ERROR_FRAME (1.0 / 16)
#define ERROR_RUN (1.0 / 64)

static double square(double x)
{
    return x * x;
}

static int64_t ns_of(int64_t ticks)
{
    return piano__ticks_ns(ticks, piano__run.header->ns_per_tick_32);
}

/* Returns the root mean square of the cost of a call. */
static int64_t usual_cost(const struct piano__slot *slot)
{
    int64_t root = (int64_t)__builtin_sqrt(slot->square + slot->rare_square);
    return root > 0 ? root : 1;
}

bool piano__stratum_is_rare(int64_t cost, int64_t usual)
{
    return ns_of(cost - RARE * usual) > RARE_NS;
}

int64_t piano__stratum_rare(void)
{
    int64_t one_ns_32 = (int64_t)piano__run.header->ns_per_tick_32;
    return one_ns_32 > 0 ? ((int64_t)RARE_NS << 32) / one_ns_32 : RARE_NS;
}

/* Interrupts also make some calls long, but take a small part of the time. So rare calls count only
 * if they take more than 1/RARE_PART. */
static void judge_rare(struct piano__slot *slot)
{
    bool is_many = slot->rare_calls >= 4 && RARE_PART * slot->rare_ticks > slot->seen_ticks;
    slot->rare_square = is_many ? slot->rare_sum / slot->seen_calls : 0;
    slot->seen_calls = slot->rare_calls = 0;
    slot->seen_ticks = slot->rare_ticks = 0;
    slot->rare_sum = 0;
}

/* A call took MORE ticks than usual. The watcher sees every call that lasts MOST, so an excess of
 * half of that or more is left to it. */
static void see_rare(struct piano__slot *slot, int64_t more, int64_t most)
{
    if (more >= most / 2)
        return;
    slot->rare_ever += (double)more;
    slot->rare_usual += slot->rare_usual ? (more - slot->rare_usual) / 4 : more;
}

/* Uses the self time of a recursive function: its total contains its other calls. */
void piano__stratum_see(struct piano__slot *slot, const struct piano__timing *m)
{
    int64_t cost = slot->recursive ? m->self : m->total;
    int64_t most = piano__mode_long(), usual = (int64_t)slot->mean;
    cost = cost < most ? cost : most;
    slot->seen_ticks += cost;
    int64_t met = cost + (m->inner + m->below) /
                             256; /* cost as interrupts see it: with the probes inside the window */
    slot->seen_ever += (double)met;
    if (slot->seen_calls++ > 0 && piano__stratum_is_rare(cost, usual)) {
        slot->rare_calls++;
        slot->rare_ticks += cost;
        slot->rare_sum += square((double)cost);
        see_rare(slot, cost - usual, most);
        cost = RARE * usual;
    }
    if (slot->seen_ever > (double)SEEN_EVER) {
        slot->seen_ever /= 2;
        slot->rare_ever /= 2;
    }
    slot->mean += ((double)cost - slot->mean) / SQUARE_MEMORY;
    slot->square += (square((double)cost) - slot->square) / SQUARE_MEMORY;
    slot->cost += (m->spent + m->below - slot->cost) / 16;
    if (slot->seen_calls >= SEEN_MOST || (slot->rare_calls >= 8 && slot->seen_calls >= SEEN_LEAST))
        judge_rare(slot);
}

/* Returns the largest stratum for which the error after WALL ns is at most the fraction ERROR of
 * that time. The error is the root of stratum x calls x variance of a call. */
static int64_t stratum_of_error(const struct piano__slot *slot, struct piano__rate rate,
                                double wall, double error)
{
    double scale = (double)piano__run.header->ns_per_tick_32 / 4294967296.0;
    double var = (slot->square - square(slot->mean) + slot->rare_square) * square(scale);
    double calls = ((double)rate.calls + 1) * wall / ((double)rate.span + 1);
    double most = square(error * wall) / (calls * (var > 1 ? var : 1));
    return most < PIANO_STRATUM_MOST ? (int64_t)most : PIANO_STRATUM_MOST;
}

/* Returns the stratum for PIANO_FRAME_STRATA samples per frame if the samples of all functions take
 * less than 1/FRAME_PART of the frame, and for an error of at most ERROR_FRAME. */
static int64_t stratum_of_frames(const struct piano__thread *t, const struct piano__slot *slot)
{
    int64_t calls = slot->frame_calls / 16;
    int64_t wall = slot->frame_wall;
    if (wall < FRAME_LEAST_NS || calls == 0)
        return PIANO_STRATUM_MOST;
    struct piano__rate rate = {calls, wall};
    int64_t most = stratum_of_error(slot, rate, (double)wall, ERROR_FRAME);
    int64_t sample_ns = ns_of(PROBES * slot->cost / 256);
    int64_t samples = 16 * wall / FRAME_PART / (t->frame_fns + 1) / (sample_ns > 1 ? sample_ns : 1);
    samples = samples < PIANO_FRAME_STRATA ? samples : PIANO_FRAME_STRATA;
    if (samples < 2)
        return most;
    int64_t few = calls / samples;
    few = few > 2 * PIANO_STRATUM_LEAST ? few : 2 * PIANO_STRATUM_LEAST;
    return most < few ? most : few;
}

int64_t piano__stratum_choose(const struct piano__thread *t, const struct piano__slot *slot,
                              struct piano__rate rate, int64_t now)
{
    int64_t sample = PROBES * slot->cost / 256;
    int64_t calls = sample * DENSITY_UNIT / (t->density * usual_cost(slot));
    int64_t of_frames = stratum_of_frames(t, slot);
    int64_t of_run = stratum_of_error(slot, rate, (double)ns_of(now - t->born), ERROR_RUN);
    int64_t of_error = (of_frames < of_run ? of_frames : of_run) * t->brake / 16;
    calls = calls < of_error ? calls : of_error;
    return calls < 1 ? 1 : calls > PIANO_STRATUM_MOST ? PIANO_STRATUM_MOST : calls;
}

/* Spends more on timing at first, until the variance of costs is known. */
static void judge_target(struct piano__thread *t, int64_t now)
{
    if (t->target < TARGET && ns_of(now - t->target_tick) > TARGET_NS) {
        t->target *= 2;
        t->target_tick = now;
    }
}

/* Limits timed calls to half of the time, however large the error is. */
static void judge_brake(struct piano__thread *t, int64_t elapsed)
{
    int64_t spent = t->budget_spent / 256;
    if (2 * spent > elapsed)
        t->brake = t->brake < BRAKE_MOST ? 2 * t->brake : BRAKE_MOST;
    else if (3 * spent < elapsed)
        t->brake = t->brake > 16 ? t->brake - t->brake / 4 : 16;
}

int64_t piano__stratum_share(struct piano__thread *t, int64_t now)
{
    int64_t elapsed = now - t->budget_tick;
    if (t->share == 0) {
        t->share = SHARE;
        t->density = DENSITY_FIRST;
        t->target = TARGET_FIRST;
        t->brake = 16;
        t->target_tick = now;
    }
    if (ns_of(elapsed) < BUDGET_NS)
        return t->share;
    judge_target(t, now);
    judge_brake(t, elapsed);
    int64_t spent = t->budget_spent / 256 * t->target;
    t->share = 4 * spent < elapsed ? SHARE : 2 * spent < elapsed ? 16 * SHARE : 128 * SHARE;
    if (spent > elapsed)
        t->density -= t->density / (spent > 2 * elapsed ? 2 : 8);
    else if (2 * spent < elapsed)
        t->density += (4 * spent < elapsed ? t->density : t->density / 4) + 1;
    t->density = t->density < DENSITY_LEAST  ? DENSITY_LEAST
                 : t->density > DENSITY_MOST ? DENSITY_MOST
                                             : t->density;
    t->budget_tick = now;
    t->budget_spent = 0;
    return t->share;
}
