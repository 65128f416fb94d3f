/* Prints a comparison of polls as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/json.h"
#include "tool/util/units.h"

static void figure_cells(struct table *t, const struct polls_change *c, enum polls_diff_figure f)
{
    char text[UNITS_LEN];
    const bool present[2] = {c->polls[0] > 0, c->polls[1] > 0};
    bool both = present[0] && present[1];
    for (int s = 0; s < 2; s++)
        table_cell(t, present[s] ? units_time(text, figure_whole(c->ns[f][s])) : "-");
    diff_percent_cell(t, present, c->ns[f]);
    table_cell(t, both ? diff_verdict(c->ns[f], c->differs[f], "slower", "faster") : "");
}

static int add_cells(struct table *t, const struct polls_change *c)
{
    char text[UNITS_LEN];
    char *name = profile_safe_name(c->name, false);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    free(name);
    diff_count_cell(t, c->polls);
    for (int f = 0; f < POLLS_DIFFS; f++)
        figure_cells(t, c, (enum polls_diff_figure)f);
    for (int s = 0; s < 2; s++)
        table_cell(t, c->polls[s] ? units_time(text, (int64_t)c->max_ns[s]) : "-");
    return 0;
}

static void add_titles(struct table *t, const struct polls_diff *d)
{
    table_column(t, "Task", TABLE_LEFT, 0);
    table_column(t, "Polls", TABLE_RIGHT, 4);
    for (int f = 0; f < POLLS_DIFFS; f++) {
        for (int s = 0; s < 2; s++)
            diff_column(t, polls_diff_names[f], d->labels[s], 12, 0);
        table_column(t, "%", TABLE_RIGHT, f == POLLS_DIFF_P50 ? 2 : 1);
        table_column(t, "", TABLE_LEFT, 0);
    }
    for (int s = 0; s < 2; s++)
        diff_column(t, "Max", d->labels[s], 12, 3);
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
    diff_more(out, shown, d->count, "task", o);
    report_dim(out, o->colour, "slower, faster: the 95 %% intervals of both sides do not overlap");
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
            buf_printf(b, "%s%lld", s ? "," : "", (long long)figure_whole(ns[s]));
        else
            buf_printf(b, "%snull", s ? "," : "");
    }
    buf_puts(b, "],");
}

static void put_figure(struct buf *b, const struct polls_change *c, enum polls_diff_figure f)
{
    static const char *const deltas[] = {"p50_delta_pct", "p99_delta_pct"};
    static const char *const real[] = {"p50_significant", "p99_significant"};
    put_times(b, polls_diff_names[f], c, c->ns[f]);
    diff_put_percent(b, deltas[f],
                     c->polls[0] && c->polls[1] ? compare_percent(c->ns[f]) : INFINITY);
    diff_put_flag(b, real[f], c->differs[f]);
}

static void put_failed(struct buf *b, const struct polls_diff *d, const struct polls_change *c,
                       double fail_above)
{
    static const char *const keys[] = {"p50_ns", "p99_ns"};
    bool failed[POLLS_DIFFS];
    if (fail_above < 0)
        return;
    for (int f = 0; f < POLLS_DIFFS; f++)
        failed[f] = polls_diff_grew(d, c, (enum polls_diff_figure)f, fail_above);
    diff_put_failed(b, keys, failed, POLLS_DIFFS);
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
