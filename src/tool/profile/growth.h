/* Growth of the heap between two snapshots, by site. */
#ifndef PIANO_TOOL_PROFILE_GROWTH_H
#define PIANO_TOOL_PROFILE_GROWTH_H

#include "tool/profile/profile.h"

enum { GROWTH_TO_END = -1, GROWTH_NOT_GIVEN = -2, GROWTH_TREND_POINTS = 4 };

struct heap_growth_row {
    uint32_t site;
    uint32_t leader;        /* the stack that grew most */
    double from, to;        /* live bytes */
    double variance;        /* upper bound of the variance of the difference */
    double per_second;      /* slope over the window */
    double correlation;     /* of live bytes with time; 0 if nothing changes */
    double late_per_second; /* slope over the later half of the window */
    double late_range;      /* maximum minus minimum in the later half */
};

struct heap_growth {
    const struct recording_snapshot *from, *to; /* TO may be `end` */
    struct recording_snapshot end;              /* state at the end of the recording */
    struct recording_snapshot start;            /* nothing was recorded yet */
    struct heap_growth_row *rows;               /* largest change first */
    size_t count;
    const struct recording_snapshot **window; /* snapshots that the trend covers, by time */
    size_t points;                            /* number of snapshots in the window */
    size_t late;                              /* index where the later half starts */
};

/* FROM and TO are numbers of snapshots, GROWTH_TO_END or GROWTH_NOT_GIVEN. If the recording has a
 * range, the snapshots nearest to its ends are taken instead.
 * 0, or negative errno with ERROR filled: fewer than two moments, or no snapshot of that number. */
int heap_growth_make(struct heap_growth *g, const struct profile *p, long from, long to,
                     struct run_error *error);
void heap_growth_release(struct heap_growth *g);
/* "grows", "grew, then flat", "shrinks", "shrank, then flat", "varies", "flat", or NULL if there
 * are too few snapshots. */
const char *heap_trend(const struct heap_growth *g, const struct heap_growth_row *row);
/* Half the width of the 95 % interval of the change. */
double heap_growth_half_width(const struct heap_growth_row *row);

#endif
