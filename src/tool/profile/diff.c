/* Compares two groups of runs, function by function.
 *
 * Functions are matched by name and file, because line numbers change with every edit. If one
 * run has two rows of that pair, they are added up. Figures are means over the runs of a side.
 *
 * If the runs differ in their number of frames (a loop that ran for ten seconds, not for a
 * thousand turns), the functions that run in frames are compared per frame. Whole-run sums would
 * show that the faster program does more work. Functions outside frames (loading at the start)
 * are still compared per run.
 *
 * If threads waited for a CPU, their wall times depend on what else the machine did. The self times
 * are then without these waits. Time that a function was blocked is its own, and stays. */
#include "tool/profile/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/estimates.h"
#include "tool/profile/compare.h"
#include "tool/profile/functions.h"
#include "tool/util/order.h"

enum { WAITED_PART = 100, REPEATED = 3 };

/* One function of one run. */
struct item {
    const char *name, *file;
    int side;
    size_t run;
    const struct tally *sum;
    struct samples *frames;
    bool sampled;
};

static int compare_names(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return strcmp(x->name, y->name) ?: compare_texts(x->file, y->file);
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return compare_names(a, b) ?: ORDER(x->side, y->side) ?: ORDER(x->run, y->run);
}

static int collect(const struct diff *d, struct item **out, size_t *count)
{
    size_t total = 0, n = 0;
    for (int s = 0; s < 2; s++)
        for (size_t r = 0; r < d->sides[s].count; r++)
            total += d->sides[s].runs[r].fn_count;
    struct item *items = calloc(total + 1, sizeof(*items));
    if (!items)
        return -ENOMEM;
    for (int s = 0; s < 2; s++)
        for (size_t r = 0; r < d->sides[s].count; r++) {
            struct run *run = &d->sides[s].runs[r];
            for (size_t i = 0; i < run->fn_count; i++) {
                struct run_fn *f = &run->fns[i];
                bool sampled = run_is_sampled(run, (uint32_t)i, &f->sum);
                if (f->sum.seen && !f->alias)
                    items[n++] =
                        (struct item){f->name, f->file, s, r, &f->sum, &f->frames, sampled};
            }
        }
    *out = items;
    *count = n;
    return 0;
}

static double measure(const struct diff *d, const struct tally *t, enum diff_measure m)
{
    int64_t self = t->self_ns - (d->without_runq ? t->runq_ns : 0);
    self = self > 0 ? self : 0; /* negative: too small to resolve */
    return (double)(m == DIFF_SELF ? self : m == DIFF_ALLOCS ? t->alloc_count : t->alloc_bytes);
}

/* Values of a row, one per run of each side; zero if the function is absent. */
struct series {
    double *of[DIFF_MEASURES][2], *calls[2];
    double *all; /* the array that they point into */
    size_t count;
};

static int series_init(struct series *s, const struct diff *d)
{
    s->count = (DIFF_MEASURES + 1) * (d->sides[0].count + d->sides[1].count);
    s->all = calloc(s->count, sizeof(*s->all));
    double *next = s->all;
    for (int side = 0; next && side < 2; side++) {
        size_t runs = d->sides[side].count;
        for (int m = 0; m < DIFF_MEASURES; m++, next += runs)
            s->of[m][side] = next;
        s->calls[side] = next;
        next += runs;
    }
    return s->all ? 0 : -ENOMEM;
}

static void series_fill(struct series *s, const struct diff *d, const struct item *items, size_t n)
{
    memset(s->all, 0, s->count * sizeof(*s->all));
    for (size_t i = 0; i < n; i++) {
        s->calls[items[i].side][items[i].run] += (double)items[i].sum->calls;
        for (int m = 0; m < (d->lacks_allocs ? DIFF_ALLOCS : DIFF_MEASURES); m++)
            s->of[m][items[i].side][items[i].run] += measure(d, items[i].sum, (enum diff_measure)m);
    }
}

static double frames_of(const struct diff *d, int side, size_t run)
{
    return (double)d->sides[side].runs[run].all.count;
}

double diff_figure(const struct diff_row *row, enum diff_measure m, int side)
{
    return row->by_frame ? row->per_frame[m][side] : row->value[m][side];
}

/* Tests the frames of one run per side, if the function is a single row in each. */
static enum verdict test_frames(const struct diff *d, const struct diff_row *row,
                                const struct item *items, size_t n)
{
    bool single = d->sides[0].count == 1 && d->sides[1].count == 1;
    if (!single || n != 2 || items[0].side == items[1].side)
        return VERDICT_UNKNOWN;
    bool greater = false;
    enum verdict verdict = stats_mann_whitney(items[0].frames, items[1].frames, &greater);
    double change = diff_figure(row, DIFF_SELF, 1) - diff_figure(row, DIFF_SELF, 0);
    /* Most frames and the mean disagree, or the mean is unchanged: a few spikes, so noise. */
    bool agrees = change != 0 && greater == (change > 0);
    return verdict == VERDICT_REAL && !agrees ? VERDICT_NOISE : verdict;
}

static void add_item(struct diff_row *row, const struct diff *d, const struct item *item)
{
    const struct tally *sum = item->sum;
    bool repeated = d->sides[0].count >= REPEATED && d->sides[1].count >= REPEATED;
    int side = item->side;
    double runs = (double)d->sides[side].count;
    row->present[side] = true;
    row->sampled[side] |= item->sampled;
    row->residue[side] |= sum->self_ns < 0;
    row->wait[side] += (double)(sum->wait_ns - (d->without_runq ? sum->runq_ns : 0)) / runs;
    row->half[side] += (double)estimates_change_half(sum, d->without_runq, repeated) / runs;
    row->total[side] = sum->has_total && row->total[side] >= 0
                           ? row->total[side] + (double)sum->total_ns / runs
                           : -1;
    row->by_frame |= d->by_frame && item->frames->count > 0;
}

/* Compares the VALUES of measure M: one per run of each side, for whole runs. Changes them to
 * values per frame if ROW is compared per frame. */
static void fill_measure(struct diff_row *row, const struct diff *d, enum diff_measure m,
                         double *const values[2])
{
    for (int side = 0; side < 2; side++) {
        size_t runs = d->sides[side].count;
        row->value[m][side] = stats_mean(values[side], runs);
        for (size_t r = 0; r < runs; r++) {
            double *v = &values[side][r], frames = frames_of(d, side, r);
            double each = frames > 0 ? *v / frames : 0;
            row->per_frame[m][side] += each / (double)runs;
            *v = row->by_frame ? each : *v;
        }
    }
    double change = fabs(diff_figure(row, m, 1) - diff_figure(row, m, 0));
    row->impact[m] = row->by_frame ? change * d->frames[1] : change;
    row->real[m] = stats_t_test(values[0], d->sides[0].count, values[1], d->sides[1].count);
}

static void fill_row(struct diff_row *row, const struct diff *d, struct series *s,
                     const struct item *items, size_t n)
{
    row->name = items[0].name;
    row->file = items[0].file;
    for (size_t i = 0; i < n; i++)
        add_item(row, d, &items[i]);
    for (int side = 0; side < 2; side++)
        row->calls[side] = stats_mean(s->calls[side], d->sides[side].count);
    for (int m = 0; m < DIFF_MEASURES; m++)
        fill_measure(row, d, (enum diff_measure)m, s->of[m]);
    if (row->real[DIFF_SELF] == VERDICT_UNKNOWN)
        row->real[DIFF_SELF] = test_frames(d, row, items, n);
    double change = row->value[DIFF_SELF][1] - row->value[DIFF_SELF][0];
    row->waited = row->real[DIFF_SELF] == VERDICT_UNKNOWN && change != 0 &&
                  (row->wait[1] - row->wait[0]) / change > 0.5;
}

static void figures(const struct diff_row *row, enum diff_measure m, double v[2])
{
    for (int side = 0; side < 2; side++)
        v[side] = diff_figure(row, m, side);
}

double diff_percent(const struct diff_row *row, enum diff_measure m)
{
    double v[2];
    figures(row, m, v);
    return compare_percent(v);
}

bool diff_grew(const struct diff *d, const struct diff_row *row, enum diff_measure m,
               double percent)
{
    double v[2];
    figures(row, m, v);
    bool is_told = m != DIFF_SELF || (!row->unresolved && !row->waited);
    return is_told && row->real[m] != VERDICT_NOISE &&
           compare_grew(v, percent, row->value[m][1], d->sum[m][1]);
}

static int compare_rows(const void *a, const void *b)
{
    const struct diff_row *x = a, *y = b;
    int order = 0;
    for (int m = 0; m < DIFF_MEASURES && order == 0; m++)
        order = ORDER(y->impact[m], x->impact[m]);
    return order ?: strcmp(x->name, y->name);
}

/* Compares per frame if every run has frames and their numbers differ. */
static void choose_basis(struct diff *d)
{
    double first = frames_of(d, 0, 0);
    bool all = true, differ = false;
    for (int side = 0; side < 2; side++)
        for (size_t r = 0; r < d->sides[side].count; r++) {
            double frames = frames_of(d, side, r);
            all &= frames > 0;
            differ |= frames != first;
            d->frames[side] += frames / (double)d->sides[side].count;
        }
    d->by_frame = all && differ;
}

static void sum_up(struct diff *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (int m = 0; m < DIFF_MEASURES; m++)
            for (int side = 0; side < 2; side++)
                d->sum[m][side] += d->rows[i].value[m][side];
}

struct maker {
    struct diff *d;
    struct series series;
};

static int add_row(void *ctx, void *items, size_t count)
{
    struct maker *m = ctx;
    struct diff_row *row = &m->d->rows[m->d->count++];
    series_fill(&m->series, m->d, items, count);
    fill_row(row, m->d, &m->series, items, count);
    if (m->d->count > 1 && strcmp(row[-1].name, row->name) == 0) /* sorted by name */
        row[-1].namesake = row->namesake = true;
    return 0;
}

static bool lacks_allocs(const struct diff_side sides[2])
{
    for (int s = 0; s < 2; s++)
        for (size_t r = 0; r < sides[s].count; r++)
            if (sides[s].runs[r].dropped[RUN_DROP_ALLOCATORS] > 0)
                return true;
    return false;
}

/* Finds out whether threads waited for a CPU, and whether all runs know how long. */
static void choose_times(struct diff *d, bool wall)
{
    bool known = true, waited = false;
    for (int s = 0; s < 2; s++)
        for (size_t r = 0; r < d->sides[s].count; r++) {
            const struct run *run = &d->sides[s].runs[r];
            int64_t runq_ns, of_ns;
            known &= run_knows_runq(run);
            waited |= run_busy(run, &runq_ns, &of_ns) && runq_ns > of_ns / WAITED_PART;
        }
    d->without_runq = known && waited && !wall;
}

int diff_make(struct diff *d, struct diff_side sides[2], bool wall)
{
    struct item *items = NULL;
    struct maker m = {.d = d};
    size_t n = 0;
    *d = (struct diff){.sides = sides, .lacks_allocs = lacks_allocs(sides)};
    choose_times(d, wall);
    choose_basis(d);
    int err = collect(d, &items, &n);
    if (err == 0)
        err = series_init(&m.series, d);
    if (err == 0) {
        d->rows = calloc(n + 1, sizeof(*d->rows));
        err = d->rows ? 0 : -ENOMEM;
    }
    if (err == 0)
        err = compare_groups(items, n, sizeof(*items), compare_items, compare_names, add_row, &m);
    if (err == 0) {
        diff_resolve(d);
        qsort(d->rows, d->count, sizeof(*d->rows), compare_rows);
        sum_up(d);
    }
    free(m.series.all);
    free(items);
    if (err)
        diff_release(d);
    return err;
}

void diff_release(struct diff *d)
{
    free(d->rows);
    *d = (struct diff){0};
}
