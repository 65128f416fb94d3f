/* Exports recordings in the formats of other tools. Each function writes to OUT and returns 0 or
 * negative errno. */
#ifndef PIANO_TOOL_EXPORT_EXPORT_H
#define PIANO_TOOL_EXPORT_EXPORT_H

#include <stdio.h>

#include "tool/profile/profile.h"
#include "tool/profile/polls.h"

int export_speedscope(FILE *out, const struct profile *p, enum figure by);
int export_pprof(FILE *out, const struct profile *p, enum figure by);
int export_collapsed(FILE *out, const struct profile *p, enum figure by);
/* P is open, but `polls_go` was not called yet. */
int export_chrome(FILE *out, struct polls *p);

/* Rounds fractions to whole numbers whose sum is the rounded sum of the fractions so far: each
 * result is the rounded sum minus the results before. Initialise with zeros. */
struct export_rounding {
    double sum;
    int64_t given;
};
int64_t export_round(struct export_rounding *r, double value);

#endif
