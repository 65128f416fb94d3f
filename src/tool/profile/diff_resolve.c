/* Finds changes that the measurement cannot resolve (docs/timing.md, docs/diff.md).
 *
 * Each self time has an interval. It covers the sampling error and the error of the probes. The
 * error of the probes is the same throughout a run, so neither frames nor repeated runs show it.
 * A caller's interval contains those of its callees. A change within the combined intervals of
 * both sides is not resolved. An interval is at least PER_CALL_NS per call, and at least 1 %. */
#include "tool/profile/diff.h"

#include <math.h>

static const double PER_CALL_NS = 2, RELATIVE = 0.01;

/* The possible error of the self time of ROW on SIDE, in units of comparison. */
static double limit_of(const struct diff *d, const struct diff_row *row, int side)
{
    double units = row->by_frame && d->frames[side] > 0 ? d->frames[side] : 1;
    double calls = PER_CALL_NS * row->calls[side] / units;
    double part = RELATIVE * diff_figure(row, DIFF_SELF, side);
    double limit = fmax(row->half[side] / units, fmax(calls, part));
    return limit / sqrt((double)d->sides[side].count); /* each run has its own calibration */
}

void diff_resolve(struct diff *d)
{
    for (size_t i = 0; i < d->count; i++) {
        struct diff_row *row = &d->rows[i];
        double change = fabs(diff_figure(row, DIFF_SELF, 1) - diff_figure(row, DIFF_SELF, 0));
        double limit = hypot(limit_of(d, row, 0), limit_of(d, row, 1));
        row->unresolved = change > 0 && change <= limit;
        row->untold = row->unresolved && row->real[DIFF_SELF] == VERDICT_REAL;
        if (row->untold)
            row->real[DIFF_SELF] = VERDICT_UNKNOWN;
    }
}
