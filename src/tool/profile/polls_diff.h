/* Comparison of the polls of two recordings, by task. */
#ifndef PIANO_TOOL_PROFILE_POLLS_DIFF_H
#define PIANO_TOOL_PROFILE_POLLS_DIFF_H

#include "tool/profile/polls.h"

enum polls_diff_figure { POLLS_DIFF_P50, POLLS_DIFF_P99, POLLS_DIFFS };
extern const char *const polls_diff_names[POLLS_DIFFS]; /* "p50", "p99" */

/* Polls of one name on both sides, [0] and [1]. */
struct polls_change {
    char *name; /* not yet safe to show */
    enum polls_kind kind;
    uint64_t polls[2], total_ns[2], max_ns[2];
    double ns[POLLS_DIFFS][2];
    double low[POLLS_DIFFS][2], high[POLLS_DIFFS][2]; /* 95 %; HIGH may be infinite */
    bool differs[POLLS_DIFFS];                        /* the intervals do not overlap */
};

struct polls_diff {
    const char *labels[2];
    struct polls_change *rows; /* largest change of the total time of polls first */
    size_t count;
    double total_ns[2];
};

/* Takes the durations out of SIDES, which are unusable afterwards. 0 or -ENOMEM. */
int polls_diff_make(struct polls_diff *d, struct polls sides[2], const char *const labels[2]);
void polls_diff_release(struct polls_diff *d);

/* Whether it grew by more than PERCENT, beyond both intervals, and is at least 1 % of the time
 * of all polls of side B. */
bool polls_diff_grew(const struct polls_diff *d, const struct polls_change *c,
                     enum polls_diff_figure figure, double percent);

#endif
