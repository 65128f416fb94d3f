/* Compares two heap recordings. Sites are matched by the names of the function and its caller.
 * Load address, build, line numbers and the file name of the program do not matter.
 *
 * Both sides are estimates. A change counts as real if the 95 % intervals of both sides do not
 * overlap. This is stricter than a test of the difference, and easy to check by hand. */
#include "tool/profile/heap_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

const char *const heap_diff_names[HEAP_DIFFS] = {"live bytes", "peak bytes", "allocated bytes"};
heap_interval *const heap_diff_intervals[HEAP_DIFFS] = {
    recording_live_interval, recording_peak_interval, recording_allocated_interval};

static double figure_of(const struct recording_sum *sum, int figure)
{
    return figure == HEAP_DIFF_LIVE   ? sum->live_bytes
           : figure == HEAP_DIFF_PEAK ? sum->peak_bytes
                                      : sum->allocated_bytes;
}

void heap_diff_values(const struct heap_change *c, enum heap_diff_figure figure, double v[2])
{
    for (int s = 0; s < 2; s++)
        v[s] = figure_of(&c->sum[s], figure);
}

/* ---- matching ---- */

struct part {
    const struct heap_site *site;
    const char *function, *caller; /* the names used for matching */
    int side;
};

static int compare_names(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return strcmp(x->function, y->function) ?: compare_texts(x->caller, y->caller)
        ?: ORDER(x->site->mmap, y->site->mmap);
}

/* By name, then the newer side first, because its file is the one shown. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return compare_names(x, y) ?: ORDER(y->side, x->side)
        ?: compare_texts(x->site->file, y->site->file) ?: ORDER(x->site->line, y->site->line);
}

static void judge_row(const struct heap_diff *d, struct heap_change *c)
{
    for (int f = 0; f < HEAP_DIFFS; f++) {
        double between[2][2], v[2], all[2];
        for (int s = 0; s < 2; s++)
            heap_diff_intervals[f](&d->sides[s].rec, &c->sum[s], &between[s][0], &between[s][1]);
        c->differs[f] = compare_apart(between[0], between[1]);
        heap_diff_values(c, (enum heap_diff_figure)f, v);
        heap_diff_values(&d->total, (enum heap_diff_figure)f, all);
        double most = fmax(all[0], all[1]);
        c->impact = fmax(c->impact, most > 0 ? fabs(v[1] - v[0]) / most : 0);
    }
}

static int compare_rows(const void *a, const void *b)
{
    const struct heap_change *x = a, *y = b;
    return ORDER(y->impact, x->impact) ?: strcmp(x->function, y->function)
        ?: compare_texts(x->caller, y->caller);
}

static struct part part_of(const struct heap_site *site, int side, const char *program)
{
    return (struct part){.site = site,
                         .function = profile_name_within(site->function, program),
                         .caller = site->caller ? profile_name_within(site->caller, program) : NULL,
                         .side = side};
}

static int add_row(void *ctx, void *group, size_t count)
{
    struct heap_diff *d = ctx;
    const struct part *parts = group;
    struct heap_change *row = &d->rows[d->count++];
    *row = (struct heap_change){.function = parts->site->function,
                                .caller = parts->site->caller,
                                .file = parts->site->file,
                                .mmap = parts->site->mmap};
    for (size_t i = 0; i < count; i++) {
        row->present[parts[i].side] = true;
        recording_sum_add(&row->sum[parts[i].side], &parts[i].site->sum);
    }
    return 0;
}

int heap_diff_make(struct heap_diff *d, const struct profile sides[2], const char *const labels[2])
{
    size_t count = sides[0].site_count + sides[1].site_count, n = 0;
    struct part *parts = calloc(count + 1, sizeof(*parts));
    *d = (struct heap_diff){.sides = sides, .labels = {labels[0], labels[1]}};
    d->rows = calloc(count + 1, sizeof(*d->rows));
    if (!parts || !d->rows) {
        free(parts);
        heap_diff_release(d);
        return -ENOMEM;
    }
    d->total = (struct heap_change){.function = "in all", .present = {true, true}};
    for (int s = 0; s < 2; s++) {
        d->total.sum[s] = sides[s].rec.total;
        d->total.sum[s].peak_bytes = sides[s].rec.header.peak_bytes;
        d->total.sum[s].peak_objects = sides[s].rec.header.peak_objects;
        for (size_t i = 0; i < sides[s].site_count; i++)
            parts[n++] = part_of(&sides[s].sites[i], s, profile_program(&sides[s]));
    }
    compare_groups(parts, n, sizeof(*parts), compare_parts, compare_names, add_row, d);
    judge_row(d, &d->total);
    for (size_t i = 0; i < d->count; i++)
        judge_row(d, &d->rows[i]);
    qsort(d->rows, d->count, sizeof(*d->rows), compare_rows);
    free(parts);
    return 0;
}

void heap_diff_release(struct heap_diff *d)
{
    free(d->rows);
    *d = (struct heap_diff){.rows = NULL};
}

bool heap_diff_grew(const struct heap_diff *d, const struct heap_change *c,
                    enum heap_diff_figure figure, double percent)
{
    double v[2];
    heap_diff_values(c, figure, v);
    return c->differs[figure] &&
           compare_grew(v, percent, v[1], figure_of(&d->total.sum[1], figure));
}

void heap_diff_notices(const struct recording *a, const struct recording *b)
{
    char first[300], second[300];
    say_safe(first, sizeof(first), paths_base(a->header.program));
    say_safe(second, sizeof(second), paths_base(b->header.program));
    if (strcmp(first, second) != 0)
        say("these are recordings of different programs: %s and %s", first, second);
}
