/* Comparison of two groups of runs. */
#ifndef PIANO_TOOL_PROFILE_DIFF_H
#define PIANO_TOOL_PROFILE_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/load/run.h"
#include "tool/profile/stats.h"

/* One group of runs. */
struct diff_side {
    const char *label;
    struct run *runs;
    size_t count;
};

enum diff_measure { DIFF_SELF, DIFF_ALLOCS, DIFF_BYTES, DIFF_MEASURES };

/* One function on both sides, [0] and [1]. */
struct diff_row {
    const char *name; /* points into a run */
    const char *file; /* or NULL */
    bool namesake;    /* another row has the same name, from another file */
    bool present[2];
    double value[DIFF_MEASURES][2]; /* means over the runs of a side, whole runs */
    double per_frame[DIFF_MEASURES][2];
    double calls[2];
    double total[2]; /* like value; negative: unknown */
    double half[2];  /* half width of the 95 % interval of the self time of a whole run */
    bool sampled[2]; /* its time is an estimate */
    bool residue[2]; /* its time was negative after the correction */
    bool unresolved; /* its time changed by less than the timing resolution: no verdict */
    bool untold;     /* there would have been a verdict */
    double wait[2];  /* like value: the known part of the self time shown that was off the CPU */
    bool waited;     /* more than half of the change was off the CPU, and nothing confirms it */
    enum verdict real[DIFF_MEASURES];
    bool by_frame;                /* compared per frame; false for functions outside frames */
    double impact[DIFF_MEASURES]; /* size of the change, over a whole run */
};

struct diff {
    const struct diff_side *sides; /* two */
    struct diff_row *rows;         /* largest change first */
    size_t count;
    bool by_frame;     /* compared per frame: the runs differ in length and all have frames */
    bool lacks_allocs; /* a run does not know its allocations: those of all count as 0 here */
    bool without_runq; /* self times are without the time that threads waited for a CPU */
    double frames[2];
    double sum[DIFF_MEASURES][2]; /* over all functions, whole runs */
};

/* 0 or -ENOMEM. SIDES must outlive DIFF; its percentile bags are sorted. Waits for a CPU are
 * left out of the self times if they are known and more than 1 % of the time, unless WALL. */
int diff_make(struct diff *diff, struct diff_side sides[2], bool wall);
void diff_release(struct diff *diff);
/* Removes the verdicts on changes of time that the probes cannot resolve; part of `diff_make`. */
void diff_resolve(struct diff *diff);

/* Both figures in the unit of comparison (per frame or per run). */
double diff_figure(const struct diff_row *row, enum diff_measure m, int side);
/* Change in percent; infinite if it was zero. */
double diff_percent(const struct diff_row *row, enum diff_measure m);
/* Whether it grew by more than PERCENT, is large enough to matter, and is not known to be noise. */
bool diff_grew(const struct diff *diff, const struct diff_row *row, enum diff_measure m,
               double percent);

#endif
