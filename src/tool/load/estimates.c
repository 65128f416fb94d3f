/* Settling a line: a frame, or what ran outside of frames.
 *
 * BOUNDS. The self times of a line add up to time that was measured exactly: what the estimates of sampled functions
 * have too much is missing from their callers. A caller that comes out below zero proves it: a fenced sample
 * shows how long a short body takes on its own, which is more than it adds to a loop whose turns overlap. The callers get
 * zero, and the sampled functions of the line give up the difference, each in proportion to its estimate.
 *
 * LOOKS. Every millisecond the watcher gave the time since its last look to the function it found (`looked_ns`). So a
 * function's looks are a second estimate of its self time, coarse but independent of the first. Where a sampled
 * function was seen for much longer than its samples say, and another for much less, a long call was merely counted:
 * its time was left with a caller. It is moved. Much is three standard deviations of both together; that of the looks
 * is sqrt(period x time), as of any count of periods.
 *
 * VARIANCE. To what the samples say comes the uncertainty of the probes: UNSURE_NS for each counted call, for the
 * function and, in sum, for the callers in proportion to the probes' cost that was taken off them; and a part of that
 * cost itself. What was moved counts as uncertain, too. */
#include "tool/load/estimates.h"

#include <math.h>

static const double PERIOD_NS = 1e6;
static const double UNSURE_NS = 0.7;
static const double UNSURE_PROBES = 0.02;

/* A call that was still open is not timed either; a sampled function has more of those. */
static bool is_estimate(const struct tally *sum)
{
    return sum->calls - sum->timed > 1 + sum->calls / 64;
}

/* The part of its self time that stands for calls which were merely counted. */
static double counted_part(const struct tally *sum)
{
    double calls = (double)(sum->calls - sum->timed);
    double self = (double)sum->self_ns * calls / (double)sum->calls;
    return is_estimate(sum) && self > 0 ? self : 0;
}

static void add_self(struct tally *sum, double ns)
{
    sum->self_ns += (int64_t)ns;
    sum->self_var += ns * ns / 4;
}

static void add_estimate(struct tally *sum, double ns)
{
    add_self(sum, ns);
    if (sum->has_total) {
        sum->total_ns += (int64_t)ns;
        sum->total_var += ns * ns / 4;
    }
}

static void settle_bounds(struct run_scratch *line)
{
    double missing = 0, counted = 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        missing -= sum->self_ns < 0 ? (double)sum->self_ns : 0;
        counted += counted_part(sum);
    }
    if (missing <= 0 || counted <= 0)
        return;
    double part = missing < counted ? missing / counted : 1;
    double paid = part * counted / missing;
    for (size_t i = 0; i < line->count; i++) {
        struct tally *sum = &line->entries[i].sum;
        if (sum->self_ns < 0)
            add_self(sum, -(double)sum->self_ns * paid);
        else
            add_estimate(sum, -part * counted_part(sum));
    }
}

/* How much more, or less, SUM was looked at than its self time says, where that is significant; else 0. SCALE makes
 * shares of the line's time of the looks: those at its two ends stand for time outside of it, too. */
static double surprise(const struct tally *sum, double scale)
{
    double looked = (double)sum->looked_ns * scale, self = (double)sum->self_ns;
    double least = looked < self ? looked : self;
    double noise = PERIOD_NS * (least > 0 ? least : 0) + PERIOD_NS * PERIOD_NS / 2 + sum->self_var;
    double more = looked - self;
    return fabs(more) > 3 * sqrt(noise) ? more : 0;
}

static void settle_looks(struct run_scratch *line)
{
    double more = 0, less = 0, looked = 0, self = 0;
    for (size_t i = 0; i < line->count; i++) {
        looked += (double)line->entries[i].sum.looked_ns;
        self += (double)line->entries[i].sum.self_ns;
    }
    double scale = self < looked / 2 ? 0.5 : self > looked * 2 ? 2 : self / looked;
    if (looked < 2 * PERIOD_NS)
        return;
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        double by = surprise(sum, scale);
        more += by > 0 && is_estimate(sum) ? by : 0;
        less -= by < 0 ? by : 0;
    }
    if (more <= 0 || less <= 0)
        return;
    double moved = more < less ? more : less;
    for (size_t i = 0; i < line->count; i++) {
        struct tally *sum = &line->entries[i].sum;
        double by = surprise(sum, scale);
        if (by < 0)
            sum->self_ns += (int64_t)(by * moved / less);
        else if (by > 0 && is_estimate(sum)) {
            sum->self_ns += (int64_t)(by * moved / more);
            sum->total_ns += (int64_t)(by * moved / more);
            sum->total_var += PERIOD_NS * PERIOD_NS / 4;
        }
        if (by != 0)
            sum->self_var += PERIOD_NS * PERIOD_NS / 4;
    }
}

static void add_uncertainty(struct run_scratch *line)
{
    double unsure = 0, probes = 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        unsure += is_estimate(sum) ? UNSURE_NS * (double)(sum->calls - sum->timed) : 0;
        probes += sum->probes_ns > 0 && !is_estimate(sum) ? (double)sum->probes_ns : 0;
    }
    for (size_t i = 0; i < line->count; i++) {
        struct tally *sum = &line->entries[i].sum;
        if (is_estimate(sum)) {
            double own = UNSURE_NS * (double)(sum->calls - sum->timed);
            sum->self_sys += own;
        } else if (sum->probes_ns > 0) {
            sum->self_sys += unsure * (double)sum->probes_ns / probes;
        }
        sum->self_sys += UNSURE_PROBES * fabs((double)sum->probes_ns);
    }
}

void estimates_settle(struct run_scratch *line, bool uncorrected)
{
    settle_bounds(line);
    settle_looks(line);
    add_uncertainty(line);
    for (size_t i = 0; uncorrected && i < line->count; i++)
        line->entries[i].sum.self_ns += line->entries[i].sum.probes_ns;
}

int64_t estimates_self_half(const struct tally *sum)
{
    return (int64_t)(1.96 * sqrt(sum->self_var + sum->self_sys * sum->self_sys));
}

int64_t estimates_total_half(const struct tally *sum)
{
    if (!is_estimate(sum))
        return 0;
    return (int64_t)(1.96 * sqrt(sum->total_var + sum->self_sys * sum->self_sys));
}
