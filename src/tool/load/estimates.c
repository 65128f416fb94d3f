/* Settles a line: a frame, the time outside frames, or the sums of a whole run.
 *
 * BOUNDS. The self times of a line add up to time that was measured exactly. What the estimates of
 * sampled functions have too much is missing from their callers. A caller below zero proves it.
 * Timing a call empties the processor's pipeline and spoils its predictions, so a short body takes
 * longer when timed than it adds to a loop at full speed. The difference is about constant per
 * stretch of code between two probes. So all counted calls of the line give up the same time per
 * stretch until the callers are at zero.
 *
 * LOOKS. Every millisecond the watcher gave the time since its last look to the function it found
 * (`looked_ns`). So the looks are a second estimate of self time: coarse, but independent of the
 * samples and of the probes. - If a sampled function was seen for much longer than its samples say,
 * and another for much less, a long call was only counted and its time stayed with a caller. That
 * time is moved. "Much" is three standard deviations of both together; that of the looks is
 * sqrt(period x time), as for any count of periods. If no caller has the time, the estimates of
 * other functions do, because all add up to measured time. These give it up as they do for a bound.
 * Where two looks in a row met the same call of a sampled function (`held_ns`), the time between
 * them is proved to be the function's. - Then both estimates are joined, weighted by the inverse of
 * their variances. The sum is unchanged.
 *
 * VARIANCE. Errors that go in the same direction in every line are added to the variance of the
 * samples: UNSURE_NS per stretch of a counted call, for the function and, in sum, for its callers
 * in proportion to the probe cost taken off them; UNSURE_TIMED_NS per timed call; UNSURE_ALLOC_NS
 * per counted allocation and free; a part of that probe cost; and half of what a bound took
 * away. */
#include "tool/load/estimates.h"

#include <math.h>

static const double PERIOD_NS = 1e6;
static const double UNSURE_NS = 1.5;
static const double UNSURE_LOOKED_NS = 1.0;
static const double UNSURE_COUNTED_NS = 0.75;
static const double UNSURE_TIMED_NS = 3.0;
static const double UNSURE_ALLOC_NS = 1.0;
static const double UNSURE_PROBES = 0.08;
static const double UNSURE_LOOKED_PROBES = 0.04;
static const double MOST_TAKEN = 0.9; /* largest part of an estimate that a bound may take */
static const double CHANGES = 0.8;    /* part of a systematic error that differs from run to run */
static const double CHANGES_HIDDEN = 0.5; /* the part that repeated runs of each side do not show */
static const double IMPROBABLE = 6;       /* -ln of the probability */
static const double UNSURE_WAITS = 0.03, UNSURE_MOVED_WAITS = 0.1;
enum { ROUNDS = 8, FEWEST_LOOKS = 8, MATTERS_PART = 33 };

/* A call that was still open is not timed either; a sampled function has more untimed calls than
 * that. */
static bool is_estimate(const struct tally *sum)
{
    return sum->calls - sum->timed > 1 + sum->calls / 64;
}

/* Returns the part of the self time that stands for counted calls. */
static double counted_part(const struct tally *sum)
{
    double calls = (double)(sum->calls - sum->timed);
    double self = (double)sum->self_ns * calls / (double)sum->calls;
    return is_estimate(sum) && self > 0 ? self : 0;
}

/* Returns the number of stretches of code between two probes in the counted calls. */
static double stretches(const struct tally *sum)
{
    bool calls_others = sum->has_total && sum->total_ns / 17 > sum->self_ns / 16;
    return (double)(sum->calls - sum->timed) * (calls_others ? 2 : 1);
}

static void add_self(struct tally *sum, double ns)
{
    sum->self_ns = saturating_add(sum->self_ns, saturating_int(ns));
    sum->self_sys += fabs(ns) / 2;
}

static void take(struct tally *sum, double ns)
{
    add_self(sum, -ns);
    if (sum->has_total)
        sum->total_ns = saturating_add(sum->total_ns, -saturating_int(ns));
}

/* Takes MISSING ns, the same per stretch, as far as possible. Returns what was taken. */
static double take_from_estimates(struct run_scratch *line, double missing)
{
    double taken = 0;
    for (int round = 0; round < ROUNDS && missing - taken > 1; round++) {
        double count = 0, each, before = taken;
        for (size_t i = 0; i < line->count; i++)
            if (line->entries[i].left > 0)
                count += stretches(&line->entries[i].sum);
        if (count <= 0)
            break;
        each = (missing - taken) / count;
        for (size_t i = 0; i < line->count; i++) {
            struct run_entry *e = &line->entries[i];
            double wanted = each * stretches(&e->sum);
            double now = wanted < e->left ? wanted : e->left;
            if (e->left <= 0)
                continue;
            e->left -= now;
            taken += now;
            take(&e->sum, now);
        }
        if (taken - before < 1)
            break;
    }
    return taken;
}

static void settle_bounds(struct run_scratch *line)
{
    double missing = 0;
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        missing -= e->sum.self_ns < 0 ? (double)e->sum.self_ns : 0;
        e->left = MOST_TAKEN * counted_part(&e->sum);
    }
    if (missing <= 0)
        return;
    double paid = take_from_estimates(line, missing) / missing;
    for (size_t i = 0; i < line->count; i++) {
        struct tally *sum = &line->entries[i].sum;
        if (sum->self_ns < 0)
            add_self(sum, -(double)sum->self_ns * paid);
    }
}

/* Sums over a line. */
struct whole {
    double self, looked; /* while the watcher ran */
    bool is_raw;  /* probes took so much time that looks at them are subtracted per function */
    double scale; /* scales looks, which reach beyond the line's ends, to its time */
    bool is_run;
};

static double probes_of(const struct tally *sum, const struct whole *w)
{
    return w->is_raw && sum->probes_ns > 0 ? (double)sum->probes_ns : 0;
}

/* A line gives the unwatched time up to it, not in it. */
static double unwatched_of(const struct tally *sum, const struct whole *w)
{
    return w->is_run ? (double)sum->unwatched_ns : 0;
}

static bool is_near(double scale)
{
    return scale > 0.7 && scale < 1.4;
}

static double scale_of(double self, double looked)
{
    return self < looked / 2 ? 0.5 : self > looked * 2 ? 2 : self / looked;
}

static struct whole whole_of(const struct run_scratch *line, bool is_run)
{
    struct whole w = {.scale = 1, .is_run = is_run};
    double probes = 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        w.looked += (double)sum->looked_ns;
        w.self += (double)sum->self_ns - unwatched_of(sum, &w);
        probes += sum->probes_ns > 0 ? (double)sum->probes_ns : 0;
    }
    if (w.looked <= 0)
        return w;
    w.scale = scale_of(w.self, w.looked);
    w.is_raw = !is_near(w.scale) && is_near((w.self + probes) / w.looked);
    if (w.is_raw)
        w.scale = (w.self + probes) / w.looked;
    return w;
}

/* Returns the self time of SUM according to the looks. */
static double by_looks(const struct tally *sum, const struct whole *w)
{
    double self = (double)sum->looked_ns * w->scale - probes_of(sum, w) + unwatched_of(sum, w);
    return self > 0 ? self : 0;
}

/* On a busy machine the watcher itself waits for a CPU and misses most of the time. */
static bool are_representative(const struct whole *w)
{
    return w->looked >= FEWEST_LOOKS * PERIOD_NS && is_near(w->scale);
}

/* Variance of the samples, and of the looks. */
static double samples_var(const struct tally *sum)
{
    return sum->self_var + sum->self_sys * sum->self_sys;
}

/* The differences between bursts of looks give the variance over a run. A line has too few. */
static double looks_var(const struct tally *sum, const struct whole *w, double self)
{
    if (w->is_run && sum->looked_var > 0)
        return sum->looked_var * w->scale * w->scale + PERIOD_NS * PERIOD_NS / 2 +
               sum->looked_sys * sum->looked_sys;
    return PERIOD_NS * ((self > 0 ? self : 0) + probes_of(sum, w)) + PERIOD_NS * PERIOD_NS / 2;
}

/* Returns whether the looks at SUM would be improbable if its samples were right. Looks come at
 * about equal distances, so few are enough: a call of 3 ms is met by two looks or three, and a
 * function with a thirtieth of the time is not met by both. This is Chernoff's bound of a binomial
 * distribution. */
static bool is_improbable(const struct tally *sum, const struct whole *w)
{
    static const double LEAST_SHARE = 1e-3;
    double count = w->looked / PERIOD_NS, found = (double)sum->looked_ns / w->looked;
    double side = found * w->self > (double)sum->self_ns ? 3 : -3;
    double share = ((double)sum->self_ns + side * sqrt(samples_var(sum))) / w->self;
    if (w->is_raw || w->self <= 0 || (found - share) * side <= 0)
        return false;
    share = fmin(fmax(share, LEAST_SHARE), 1 - LEAST_SHARE);
    double distance = found > 0 ? found * log(found / share) : 0;
    distance += found < 1 ? (1 - found) * log((1 - found) / (1 - share)) : 0;
    return count * distance > IMPROBABLE;
}

/* Returns by how much the looks at SUM exceed its self time, if that is significant; else 0. */
static double significant_excess(const struct tally *sum, const struct whole *w)
{
    double looked = by_looks(sum, w), self = (double)sum->self_ns;
    double noise = looks_var(sum, w, looked < self ? looked : self) + samples_var(sum);
    bool is_significant = fabs(looked - self) > 3 * sqrt(noise) || is_improbable(sum, w);
    return is_significant ? looked - self : 0;
}

/* Adds to a function what the looks indicate beyond its samples. */
static void give_looked(struct tally *sum, double by)
{
    int64_t ns = saturating_int(by);
    sum->self_ns = saturating_add(sum->self_ns, ns);
    sum->self_var += PERIOD_NS * fabs(by);
    if (by > 0 && sum->has_max && ns > sum->max_ns)
        sum->max_ns = ns;
    if (by > 0 && sum->has_total) {
        sum->total_ns = saturating_add(sum->total_ns, ns);
        sum->total_var += PERIOD_NS * by;
    }
}

/* Takes MISSING ns from functions whose looks and samples agree, as for a bound. Returns what they
 * gave. */
static double take_from_others(struct run_scratch *line, const struct whole *w, double missing)
{
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        bool other = significant_excess(&e->sum, w) == 0;
        e->left = other ? MOST_TAKEN * counted_part(&e->sum) : 0;
    }
    return take_from_estimates(line, missing);
}

/* Part of the moved time was spent off the CPU. */
struct waits {
    double wait, runq;
};

/* Functions that lose time lose the same part of their waits, when they lose PART of `moved`. */
static struct waits take_waits(struct run_scratch *line, double part)
{
    struct waits taken = {0};
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        struct tally *sum = &e->sum;
        if (e->moved >= 0 || sum->wait_ns <= 0 || sum->self_ns <= 0)
            continue;
        double lost = fmin(1, -e->moved * part / (double)sum->self_ns);
        int64_t wait = saturating_int(lost * (double)sum->wait_ns);
        int64_t runq = saturating_int(lost * (double)sum->runq_ns);
        sum->wait_ns -= wait;
        sum->runq_ns -= runq;
        taken.wait += (double)wait;
        taken.runq += (double)runq;
    }
    return taken;
}

static void give_waits(struct tally *sum, struct waits waits, double part)
{
    sum->wait_ns = saturating_add(sum->wait_ns, saturating_int(waits.wait * part));
    sum->runq_ns = saturating_add(sum->runq_ns, saturating_int(waits.runq * part));
    sum->has_cpu |= waits.wait > 0;
}

/* Returns by how much the looks prove that the samples of SUM missed a long call. */
static double proved(const struct tally *sum, const struct whole *w)
{
    if (!is_estimate(sum) || sum->held_ns <= sum->self_ns)
        return 0;
    return fmax(by_looks(sum, w), (double)sum->held_ns) - (double)sum->self_ns;
}

/* A long call of MORE ns was proved, and LESS ns are significantly too much elsewhere. Also takes
 * from callers that have too much of it by an amount that would not be significant alone. Returns
 * what they have too much in all. */
static double find_callers(struct run_scratch *line, const struct whole *w, double more,
                           double less)
{
    for (size_t i = 0; i < line->count && less < more; i++) {
        struct run_entry *e = &line->entries[i];
        double lacks = (double)e->sum.self_ns - by_looks(&e->sum, w);
        if (e->moved != 0 || is_estimate(&e->sum) || lacks < more / 2)
            continue;
        e->moved = -lacks;
        less += lacks;
    }
    return less;
}

static void move_long_calls(struct run_scratch *line, const struct whole *w)
{
    double more = 0, less = 0, sure = 0;
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        double proof = proved(&e->sum, w);
        e->moved = significant_excess(&e->sum, w);
        e->moved = e->moved > 0 && !is_estimate(&e->sum) ? 0 : e->moved;
        e->moved = proof > 0 ? fmax(proof, e->moved) : e->moved;
        sure += proof;
        more += e->moved > 0 ? e->moved : 0;
        less -= e->moved < 0 ? e->moved : 0;
    }
    if (more <= 0)
        return;
    if (sure > 0)
        less = find_callers(line, w, more, less);
    double from_callers = more < less ? more : less, moved = from_callers;
    if (more > less && are_representative(w))
        moved += take_from_others(line, w, more - less);
    double part_of_less = less > 0 ? from_callers / less : 0, part_of_more = moved / more;
    struct waits waits = take_waits(line, part_of_less);
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        if (e->moved > 0)
            give_waits(&e->sum, waits, e->moved / more);
        if (e->moved != 0)
            give_looked(&e->sum, e->moved * (e->moved < 0 ? part_of_less : part_of_more));
    }
}

/* Least squares over both estimates of each function and the known sum of all. */
static void join_looks(struct run_scratch *line, const struct whole *w)
{
    double off = 0, var_sum = 0;
    for (size_t i = 0; i < line->count; i++) {
        struct run_entry *e = &line->entries[i];
        double self = (double)e->sum.self_ns, looked = by_looks(&e->sum, w);
        double of_samples = samples_var(&e->sum), of_looks = looks_var(&e->sum, w, looked);
        e->left =
            of_samples * of_looks / (of_samples + of_looks); /* variance of the joined estimate */
        e->moved = (looked - self) * of_samples / (of_samples + of_looks);
        off -= e->moved;
        var_sum += e->left;
    }
    for (size_t i = 0; i < line->count && var_sum > 0; i++) {
        struct run_entry *e = &line->entries[i];
        double before = samples_var(&e->sum), part = before > 0 ? e->left / before : 1;
        double moved = e->moved + off * e->left / var_sum;
        if ((double)e->sum.self_ns + moved < 0)
            moved = e->sum.self_ns > 0 ? -(double)e->sum.self_ns : 0;
        e->sum.self_ns = saturating_add(e->sum.self_ns, saturating_int(moved));
        if (is_estimate(&e->sum) && e->sum.has_total)
            e->sum.total_ns = saturating_add(e->sum.total_ns, saturating_int(moved));
        if (w->is_run) { /* only once: a line and the run have the same looks */
            e->sum.self_var *= part;
            e->sum.self_sys *= sqrt(part);
        }
    }
}

/* Returns the share of SUM, as a caller, in the error of the counted calls. It is proportional to
 * the probe cost taken off SUM or, in files without that, to the time of its callees. */
static double callers_weight(const struct tally *sum, bool by_probes)
{
    double below = sum->has_total ? (double)sum->total_ns - (double)sum->self_ns : 0;
    double weight = by_probes ? (double)sum->probes_ns : below;
    return is_estimate(sum) || weight < 0 ? 0 : weight;
}

static void add_uncertainty(struct run_scratch *line)
{
    double unsure = 0, weights = 0;
    bool by_probes = false;
    for (size_t i = 0; i < line->count; i++) {
        const struct tally *sum = &line->entries[i].sum;
        unsure += is_estimate(sum) ? stretches(sum) : 0;
        by_probes |= callers_weight(sum, true) > 0;
    }
    for (size_t i = 0; i < line->count; i++)
        weights += callers_weight(&line->entries[i].sum, by_probes);
    for (size_t i = 0; i < line->count; i++) {
        struct tally *sum = &line->entries[i].sum;
        double counted = 0;
        if (is_estimate(sum))
            counted = stretches(sum);
        else if (weights > 0)
            counted = unsure * callers_weight(sum, by_probes) / weights;
        sum->self_sys += UNSURE_NS * counted;
        sum->looked_sys += UNSURE_LOOKED_NS * counted;
        sum->self_probes += UNSURE_COUNTED_NS * counted;
        sum->self_sys += UNSURE_PROBES * fabs((double)sum->probes_ns);
        sum->looked_sys += UNSURE_LOOKED_PROBES * fabs((double)sum->probes_ns);
        sum->self_cal += UNSURE_TIMED_NS * (double)sum->timed;
        sum->self_cal += UNSURE_ALLOC_NS * ((double)sum->alloc_count + (double)sum->free_count);
    }
}

static void settle_looks(struct run_scratch *line, bool is_run)
{
    struct whole w = whole_of(line, is_run);
    if (w.looked >= 2 * PERIOD_NS)
        move_long_calls(line, &w);
    if (are_representative(&w))
        join_looks(line, &w);
}

void estimates_settle(struct run_scratch *line)
{
    add_uncertainty(line);
    settle_bounds(line);
    settle_looks(line, false);
}

void estimates_settle_run(struct run_scratch *all)
{
    settle_bounds(all);
    settle_looks(all, true);
    waits_settle(all);
    struct whole w = whole_of(all, true);
    for (size_t i = 0; i < all->count && are_representative(&w); i++) {
        struct tally *sum = &all->entries[i].sum;
        sum->disputed = is_estimate(sum) && significant_excess(sum, &w) != 0;
    }
}

static int64_t half_of(double var, double sys)
{
    return saturating_int(1.96 * sqrt(var + sys * sys));
}

bool estimates_matter(const struct tally *sum)
{
    int64_t self = sum->self_ns > 0 ? sum->self_ns : 0;
    return half_of(sum->self_var, sum->self_sys) > self / MATTERS_PART;
}

int64_t estimates_self_half(const struct tally *sum)
{
    return half_of(sum->self_var, sum->self_sys + sum->self_cal + sum->self_probes);
}

/* Returns how far WAIT, off the CPU in SUM's self time, may be wrong. Calls that are too short to be
 * checked share the waits of those that are, and estimates share those of their callers. */
static double unsure_of_waits(const struct tally *sum, int64_t wait)
{
    bool moved = is_estimate(sum) || estimates_matter(sum);
    return (moved ? UNSURE_MOVED_WAITS : UNSURE_WAITS) * (double)wait;
}

int64_t estimates_cpu_half(const struct tally *sum)
{
    double sys = sum->self_sys + sum->self_cal + sum->self_probes;
    return half_of(sum->self_var, sys + unsure_of_waits(sum, sum->wait_ns));
}

int64_t estimates_change_half(const struct tally *sum, bool without_runq, bool repeated)
{
    double sys = (repeated ? CHANGES_HIDDEN : CHANGES) * (sum->self_sys + sum->self_cal);
    return half_of(sum->self_var, sys + (without_runq ? unsure_of_waits(sum, sum->runq_ns) : 0));
}

int64_t estimates_total_half(const struct tally *sum)
{
    return half_of(sum->total_var, sum->self_sys + sum->self_cal + sum->self_probes);
}
