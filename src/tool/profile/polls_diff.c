/* Compares the tasks of two recordings by the duration of their polls: p50, p99, the longest.
 *
 * The 95 % interval of a percentile p of N polls extends 1.96 times sqrt(N p (1 - p)) ranks
 * below and above it, whatever the distribution. If there are too few polls for the upper rank,
 * the interval is open. A change counts if the intervals of both sides do not overlap. The
 * longest poll is a single value, so it gets no verdict.
 *
 * Tasks are matched by name. Loops are matched by the name of their thread without its number,
 * so threads of the same name are merged. */
#include "tool/profile/polls_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/util/order.h"

static const double two_sided_95 = 1.96;
static const double quantiles[POLLS_DIFFS] = {0.50, 0.99};

const char *const polls_diff_names[POLLS_DIFFS] = {"p50", "p99"};

/* ---- matching ---- */

struct part {
    char *name;
    struct polls_group *group;
    int side;
};

/* The name of a group without the number of its thread; malloc'd. */
static char *plain_name(const struct polls_group *g)
{
    size_t len = strlen(g->name), end = len;
    bool closed = len > 0 && g->name[len - 1] == ')';
    end -= closed;
    while (end > 0 && g->name[end - 1] >= '0' && g->name[end - 1] <= '9')
        end--;
    bool numbered = end + closed < len;
    if (g->kind == POLLS_LOOP && numbered && closed && end > 2 && g->name[end - 1] == '(')
        len = end - 2;
    else if (g->kind == POLLS_LOOP && numbered && end > 7 &&
             strncmp(g->name + end - 7, "thread ", 7) == 0)
        len = end - 1;
    return strndup(g->name, len);
}

static int compare_names(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return strcmp(x->name, y->name) ?: ORDER(x->group->kind, y->group->kind);
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return compare_names(x, y) ?: ORDER(x->side, y->side);
}

static void find_interval(struct polls_change *c, int figure, int side, struct samples *s)
{
    double p = quantiles[figure], last = (double)s->count - 1;
    c->ns[figure][side] = (double)samples_percentile(s, p);
    double half = two_sided_95 * sqrt((double)s->count * p * (1 - p));
    double low = floor(p * last - half), high = ceil(p * last + half);
    c->low[figure][side] = low >= 0 ? (double)samples_rank(s, (uint64_t)low) : 0;
    c->high[figure][side] = high <= last ? (double)samples_rank(s, (uint64_t)high) : INFINITY;
}

static void judge(struct polls_change *c, struct samples durations[2])
{
    for (int f = 0; f < POLLS_DIFFS; f++) {
        for (int s = 0; s < 2; s++)
            if (durations[s].count > 0)
                find_interval(c, f, s, &durations[s]);
        c->differs[f] = c->polls[0] > 0 && c->polls[1] > 0 &&
                        (c->low[f][1] > c->high[f][0] || c->low[f][0] > c->high[f][1]);
    }
}

/* Makes one row of COUNT parts, and takes their durations. */
static int add_row(void *ctx, void *group, size_t count)
{
    struct polls_diff *d = ctx;
    const struct part *parts = group;
    struct samples durations[2] = {{.exact = NULL}, {.exact = NULL}};
    struct polls_change *c = &d->rows[d->count++];
    int err = 0;
    *c = (struct polls_change){.name = strdup(parts[0].name), .kind = parts[0].group->kind};
    for (size_t i = 0; i < count && err == 0; i++) {
        struct polls_group *g = parts[i].group;
        int s = parts[i].side;
        c->polls[s] += g->polls;
        c->total_ns[s] += g->total_ns;
        c->max_ns[s] = g->max_ns > c->max_ns[s] ? g->max_ns : c->max_ns[s];
        err = samples_merge(&durations[s], &g->durations);
    }
    for (int s = 0; s < 2; s++)
        d->total_ns[s] += (double)c->total_ns[s];
    if (err == 0)
        judge(c, durations);
    for (int s = 0; s < 2; s++)
        samples_release(&durations[s]);
    return err == 0 && !c->name ? -ENOMEM : err;
}

static double change_of(const struct polls_change *c)
{
    return fabs((double)c->total_ns[1] - (double)c->total_ns[0]);
}

static int compare_rows(const void *a, const void *b)
{
    const struct polls_change *x = a, *y = b;
    return ORDER(change_of(y), change_of(x)) ?: strcmp(x->name, y->name);
}

static size_t take_parts(struct part *parts, struct polls *p, int side)
{
    size_t n = 0;
    for (size_t i = 0; i < p->group_count; i++)
        if (p->groups[i].polls > 0 && p->groups[i].name)
            parts[n++] = (struct part){plain_name(&p->groups[i]), &p->groups[i], side};
    return n;
}

int polls_diff_make(struct polls_diff *d, struct polls sides[2], const char *const labels[2])
{
    size_t most = sides[0].group_count + sides[1].group_count, n = 0;
    struct part *parts = calloc(most + 1, sizeof(*parts));
    *d = (struct polls_diff){.labels = {labels[0], labels[1]}};
    d->rows = calloc(most + 1, sizeof(*d->rows));
    int err = parts && d->rows ? 0 : -ENOMEM;
    for (int s = 0; s < 2 && err == 0; s++)
        n += take_parts(parts + n, &sides[s], s);
    for (size_t i = 0; i < n; i++)
        err = parts[i].name ? err : -ENOMEM;
    if (err == 0)
        err = compare_groups(parts, n, sizeof(*parts), compare_parts, compare_names, add_row, d);
    for (size_t i = 0; i < n; i++)
        free(parts[i].name);
    free(parts);
    if (err == 0)
        qsort(d->rows, d->count, sizeof(*d->rows), compare_rows);
    else
        polls_diff_release(d);
    return err;
}

void polls_diff_release(struct polls_diff *d)
{
    for (size_t i = 0; d->rows && i < d->count; i++)
        free(d->rows[i].name);
    free(d->rows);
    *d = (struct polls_diff){.rows = NULL};
}

bool polls_diff_grew(const struct polls_diff *d, const struct polls_change *c,
                     enum polls_diff_figure figure, double percent)
{
    return c->differs[figure] &&
           compare_grew(c->ns[figure], percent, (double)c->total_ns[1], d->total_ns[1]);
}
