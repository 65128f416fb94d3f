/* What the probes cannot tell apart (docs/timing.md).
 *
 * OF A FUNCTION. Every call may be wrong by two nanoseconds, the same way in all of a run: it is a matter of how the run
 * was calibrated. An estimate of less than 10 ns may be wrong by four: up to three quarters of a body of 5 ns are taken off it, or
 * not, by what its callers proved. And never better than one part in a hundred.
 *
 * OF ITS CALLERS. What the estimate of a merely counted call gets wrong stays with its caller, with the other sign, and so does
 * what its probe took more or less than was taken off. A run file does not say who called whom. So it may be
 * any function with callees that moved the other way, and one whose callees had little time but that of the counted
 * function, however it moved. Of those calls it made at most as many as fit into the time of its callees. */
#include "tool/report/diff.h"

#include <math.h>

enum { MOST = 256 };

static const double PER_CALL_NS = 2, PER_TINY_NS = 4, TINY_NS = 10, RELATIVE = 0.01;

/* How many units of comparison a whole run of the second side has. */
static double units_of(const struct diff *d, const struct diff_row *row)
{
    return row->by_frame ? d->frames[1] : 1;
}

static double change_of(const struct diff *d, const struct diff_row *row)
{
    return (diff_figure(row, DIFF_SELF, 1) - diff_figure(row, DIFF_SELF, 0)) * units_of(d, row);
}

/* By how much the calls of ROW may be wrong in sum, of both sides the larger. */
static double calls_limit(const struct diff *d, const struct diff_row *row)
{
    double calls = 0, each = PER_CALL_NS;
    for (int s = 0; s < 2; s++) {
        double n = row->by_frame ? row->calls[s] / d->frames[s] * d->frames[1] : row->calls[s];
        calls = n > calls ? n : calls;
        if (row->sampled[s] && row->value[DIFF_SELF][s] < TINY_NS * row->calls[s])
            each = PER_TINY_NS;
    }
    return calls * each;
}

/* A function whose total is its self time calls nothing. */
static bool calls_any(const struct diff_row *row)
{
    for (int s = 0; s < 2; s++)
        if (row->present[s] &&
            (row->total[s] < 0 || row->residue[s] || row->total[s] > row->value[DIFF_SELF][s]))
            return true;
    return false;
}

/* Which part of the calls of SAMPLED may have been made by ROW. */
static double part_called(const struct diff_row *row, const struct diff_row *sampled)
{
    double part = 0;
    for (int s = 0; s < 2; s++) {
        double below = row->total[s] - row->value[DIFF_SELF][s];
        double needs = sampled->value[DIFF_SELF][s];
        double fits = row->total[s] < 0 || below >= needs ? 1 : below > 0 ? below / needs : 0;
        if (row->present[s] && sampled->present[s] && fits > part)
            part = fits;
    }
    return part;
}

/* Whether ROW does little but call SAMPLED: most of the time of its callees may be its. */
static bool mostly_calls(const struct diff_row *row, const struct diff_row *sampled)
{
    for (int s = 0; s < 2; s++) {
        double below = row->total[s] - row->value[DIFF_SELF][s];
        if (row->present[s] && sampled->present[s] && row->total[s] >= 0 && below > 0 &&
            2 * sampled->value[DIFF_SELF][s] >= below && row != sampled)
            return true;
    }
    return false;
}

/* The functions timed by sample. Those with a large part of all uncertainty are looked at one by one, the rest as a sum for each
 * direction: there may be a million. */
struct sampled {
    const struct diff_row *rows[MOST];
    size_t count;
    double rest[2]; /* faster, slower */
};

static bool is_sampled(const struct diff_row *row)
{
    return row->sampled[0] || row->sampled[1];
}

static void find_sampled(struct sampled *found, const struct diff *d)
{
    double sum = 0;
    for (size_t i = 0; i < d->count; i++)
        sum += is_sampled(&d->rows[i]) ? calls_limit(d, &d->rows[i]) : 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct diff_row *row = &d->rows[i];
        double limit = is_sampled(row) ? calls_limit(d, row) : 0;
        if (limit * MOST > sum && found->count < MOST)
            found->rows[found->count++] = row;
        else
            found->rest[change_of(d, row) > 0] += limit;
    }
}

static double callees_limit(const struct diff *d, const struct diff_row *row,
                            const struct sampled *sampled)
{
    double change = change_of(d, row);
    if (!calls_any(row))
        return 0;
    double sum = sampled->rest[change < 0];
    for (size_t i = 0; i < sampled->count; i++) {
        const struct diff_row *callee = sampled->rows[i];
        if (change * change_of(d, callee) < 0 || mostly_calls(row, callee))
            sum += calls_limit(d, callee) * part_called(row, callee);
    }
    return sum;
}

void diff_resolve(struct diff *d)
{
    struct sampled sampled = {.count = 0};
    find_sampled(&sampled, d);
    for (size_t i = 0; i < d->count; i++) {
        struct diff_row *row = &d->rows[i];
        double own = calls_limit(d, row), change = fabs(change_of(d, row));
        for (int s = 0; s < 2; s++)
            own = fmax(own, RELATIVE * diff_figure(row, DIFF_SELF, s) * units_of(d, row));
        row->unresolved = change > 0 && change <= own + callees_limit(d, row, &sampled);
        row->untold = row->unresolved && row->real[DIFF_SELF] == VERDICT_REAL;
        if (row->untold)
            row->real[DIFF_SELF] = VERDICT_UNKNOWN;
    }
}
