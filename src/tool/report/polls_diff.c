/* Compares the tasks of two recordings by the duration of their polls: p50, p99, the longest.
 *
 * The 95 % interval of a percentile p of N polls extends 1.96 times sqrt(N p (1 - p)) ranks
 * below and above it, whatever the distribution. If there are too few polls for the upper rank,
 * the interval is open. A change counts if the intervals of both sides do not overlap. The
 * longest poll is a single value, so it gets no verdict.
 *
 * Tasks are matched by name. Loops are matched by the name of their thread without its number,
 * so threads of the same name are merged. */
#include "tool/report/polls_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const double matters = 0.01; /* share of the total of side B */
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

static int compare_names(const struct part *x, const struct part *y)
{
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->group->kind - (int)y->group->kind;
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = compare_names(x, y);
    return order ? order : x->side - y->side;
}

/* The poll at RANK. */
static double at_rank(const struct samples *s, double rank)
{
    return (double)samples_rank(s, (uint64_t)rank);
}

static void find_interval(struct polls_change *c, int figure, int side, struct samples *s)
{
    double p = quantiles[figure], last = (double)s->count - 1;
    c->ns[figure][side] = (double)samples_percentile(s, p);
    double half = two_sided_95 * sqrt((double)s->count * p * (1 - p));
    double low = floor(p * last - half), high = ceil(p * last + half);
    c->low[figure][side] = low >= 0 ? at_rank(s, low) : 0;
    c->high[figure][side] = high <= last ? at_rank(s, high) : INFINITY;
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
static int add_row(struct polls_diff *d, struct part *parts, size_t count)
{
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
    double by[2] = {change_of(x), change_of(y)};
    if (by[0] > by[1] || by[0] < by[1])
        return by[0] > by[1] ? -1 : 1;
    return strcmp(x->name, y->name);
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
        qsort(parts, n, sizeof(*parts), compare_parts);
    for (size_t from = 0, to; from < n && err == 0; from = to) {
        for (to = from + 1; to < n && compare_names(&parts[from], &parts[to]) == 0; to++)
            continue;
        err = add_row(d, parts + from, to - from);
    }
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

double polls_diff_percent(const struct polls_change *c, enum polls_diff_figure figure)
{
    double a = c->ns[figure][0], b = c->ns[figure][1];
    return a > 0 ? (b - a) / a * 100.0 : b > 0 ? INFINITY : 0;
}

bool polls_diff_grew(const struct polls_diff *d, const struct polls_change *c,
                     enum polls_diff_figure figure, double percent)
{
    return c->differs[figure] && c->ns[figure][1] > c->ns[figure][0] &&
           polls_diff_percent(c, figure) > percent &&
           (double)c->total_ns[1] >= matters * d->total_ns[1];
}

/* ---- text ---- */

static void figure_cells(struct table *t, const struct polls_change *c, enum polls_diff_figure f)
{
    char text[UNITS_LEN];
    bool both = c->polls[0] > 0 && c->polls[1] > 0;
    double by = c->ns[f][1] - c->ns[f][0];
    for (int s = 0; s < 2; s++)
        table_cell(t, c->polls[s] ? units_time(text, heap_whole(c->ns[f][s])) : "-");
    if (both && isfinite(polls_diff_percent(c, f)))
        table_cell(t, units_percent_signed(text, polls_diff_percent(c, f) / 100.0));
    else
        table_cell(t, both ? "-" : c->polls[1] ? "new" : "gone");
    table_cell(t, c->differs[f] ? by > 0 ? "slower" : "faster" : both && by != 0 ? "noise" : "");
}

static int add_cells(struct table *t, const struct polls_change *c)
{
    char first[UNITS_LEN], second[UNITS_LEN], pair[2 * UNITS_LEN + 4];
    char *name = heap_name(c->name, false);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    free(name);
    snprintf(pair, sizeof(pair), "%s -> %s", units_count(first, (int64_t)c->polls[0]),
             units_count(second, (int64_t)c->polls[1]));
    table_cell(t, pair);
    for (int f = 0; f < POLLS_DIFFS; f++)
        figure_cells(t, c, (enum polls_diff_figure)f);
    for (int s = 0; s < 2; s++)
        table_cell(t, c->polls[s] ? units_time(first, (int64_t)c->max_ns[s]) : "-");
    return 0;
}

static void add_titles(struct table *t, const struct polls_diff *d)
{
    static const char *const what[] = {"p50", "p99", "Max"};
    char safe[64], cut[32], title[64];
    table_column(t, "Task", TABLE_LEFT, 0);
    table_column(t, "Polls", TABLE_RIGHT, 4);
    for (int f = 0; f <= POLLS_DIFFS; f++) {
        for (int s = 0; s < 2; s++) {
            say_safe(safe, sizeof(safe), d->labels[s]);
            table_shorten(cut, sizeof(cut), safe, 12);
            snprintf(title, sizeof(title), "%s %s", what[f], cut);
            table_column(t, title, TABLE_RIGHT, f == POLLS_DIFFS ? 3 : 0);
        }
        if (f < POLLS_DIFFS) {
            table_column(t, "%", TABLE_RIGHT, f == POLLS_DIFF_P50 ? 2 : 1);
            table_column(t, "", TABLE_LEFT, 0);
        }
    }
}

int polls_diff_print(FILE *out, const struct polls_diff *d, const struct report_options *o)
{
    struct table t = {.cells = NULL};
    size_t top = o->all ? d->count : o->top ? o->top : REPORT_TOP;
    size_t shown = d->count < top ? d->count : top;
    int err = 0;
    add_titles(&t, d);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_cells(&t, &d->rows[i]);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    table_release(&t);
    if (err)
        return err;
    if (shown < d->count && !o->top)
        report_dim(out, o->colour, "%zu more task%s: --all", d->count - shown,
                   d->count - shown == 1 ? "" : "s");
    report_dim(out, o->colour, "slower, faster: the 95 %% intervals of both sides do not touch");
    return 0;
}

/* ---- JSON ---- */

/* A side without polls has no times. */
static void put_times(struct buf *b, const char *key, const struct polls_change *c,
                      const double ns[2])
{
    buf_printf(b, "\"%s_ns\":[", key);
    for (int s = 0; s < 2; s++) {
        if (c->polls[s])
            buf_printf(b, "%s%lld", s ? "," : "", (long long)heap_whole(ns[s]));
        else
            buf_printf(b, "%snull", s ? "," : "");
    }
    buf_puts(b, "],");
}

static void put_figure(struct buf *b, const struct polls_change *c, enum polls_diff_figure f)
{
    double percent = polls_diff_percent(c, f);
    const char *key = polls_diff_names[f];
    put_times(b, key, c, c->ns[f]);
    if (c->polls[0] && c->polls[1] && isfinite(percent))
        buf_printf(b, "\"%s_delta_pct\":%.3f,", key, percent);
    else
        buf_printf(b, "\"%s_delta_pct\":null,", key);
    buf_printf(b, "\"%s_significant\":%s,", key, c->differs[f] ? "true" : "false");
}

static void put_failed(struct buf *b, const struct polls_diff *d, const struct polls_change *c,
                       double fail_above)
{
    const char *comma = "";
    if (fail_above < 0)
        return;
    buf_puts(b, "\"failed_by\":[");
    for (int f = 0; f < POLLS_DIFFS; f++)
        if (polls_diff_grew(d, c, (enum polls_diff_figure)f, fail_above)) {
            buf_printf(b, "%s\"%s_ns\"", comma, polls_diff_names[f]);
            comma = ",";
        }
    buf_printf(b, "],\"failed\":%s,", *comma ? "true" : "false");
}

int polls_diff_put(struct buf *b, FILE *out, const struct polls_diff *d, double fail_above)
{
    int err = 0;
    buf_puts(b, "\"tasks\":[");
    for (size_t i = 0; i < d->count && err == 0; i++) {
        const struct polls_change *c = &d->rows[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "name", c->name);
        for (int f = 0; f < POLLS_DIFFS; f++)
            put_figure(b, c, (enum polls_diff_figure)f);
        put_failed(b, d, c, fail_above);
        const double most[2] = {(double)c->max_ns[0], (double)c->max_ns[1]};
        put_times(b, "max", c, most);
        buf_printf(b, "\"total_ns\":[%llu,%llu],\"polls\":[%llu,%llu]}",
                   (unsigned long long)c->total_ns[0], (unsigned long long)c->total_ns[1],
                   (unsigned long long)c->polls[0], (unsigned long long)c->polls[1]);
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "\n],\n");
    return err;
}
