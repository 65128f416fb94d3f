/* Prints a comparison of polls as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <math.h>
#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/units.h"

static const struct figure_keys {
    const char *key, *percent, *significant;
} figures[POLLS_DIFFS] = {{"p50_ns", "p50_delta_pct", "p50_significant"},
                          {"p99_ns", "p99_delta_pct", "p99_significant"}};

struct view {
    const struct polls_diff *d;
    double fail_above;
    struct diff_titles titles[POLLS_DIFFS], most;
};

static struct view view_of(const struct polls_diff *d, double fail_above)
{
    struct view v = {.d = d, .fail_above = fail_above};
    for (int f = 0; f < POLLS_DIFFS; f++)
        diff_titles(&v.titles[f], polls_diff_names[f], d->labels, 12);
    diff_titles(&v.most, "Max", d->labels, 12);
    return v;
}

/* ---- columns ---- */

static void figure_columns(struct sheet *s, const struct view *v, const struct polls_change *c,
                           enum polls_diff_figure f)
{
    const bool present[2] = {c->polls[0] > 0, c->polls[1] > 0};
    bool both = present[0] && present[1];
    diff_add_pair(s, &(const struct diff_pair){.kind = SHEET_TIME,
                                               .key = figures[f].key,
                                               .titles = &v->titles[f],
                                               .value = c->ns[f],
                                               .present = present});
    diff_add_percent(s, figures[f].percent, both ? compare_percent(c->ns[f]) : INFINITY,
                     f == POLLS_DIFF_P50 ? 2 : 1, present, c->ns[f]);
    diff_add_verdict(s, figures[f].significant, c->differs[f], 0,
                     both ? diff_verdict(c->ns[f], c->differs[f], "slower", "faster") : "");
}

static void put_failed(struct json_writer *w, const struct view *v, const struct polls_change *c)
{
    const char *keys[POLLS_DIFFS];
    bool failed[POLLS_DIFFS];
    if (v->fail_above < 0)
        return;
    for (int f = 0; f < POLLS_DIFFS; f++) {
        keys[f] = figures[f].key;
        failed[f] = polls_diff_grew(v->d, c, (enum polls_diff_figure)f, v->fail_above);
    }
    diff_put_failed(w, keys, failed, POLLS_DIFFS);
}

static void row_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct polls_change *c = of;
    const bool present[2] = {c->polls[0] > 0, c->polls[1] > 0};
    const double most[2] = {(double)c->max_ns[0], (double)c->max_ns[1]};
    char *name = s->table ? profile_safe_name(c->name, false) : NULL;
    if (s->table && !name)
        s->texts.failed = true;
    SHEET(s, TEXT, "name", "Task", .text = c->name, .shown = name, .place = -2);
    for (int f = 0; f < POLLS_DIFFS; f++)
        figure_columns(s, v, c, (enum polls_diff_figure)f);
    put_failed(s->json, v, c);
    diff_add_pair(s, &(const struct diff_pair){.kind = SHEET_TIME,
                                               .key = "max_ns",
                                               .titles = &v->most,
                                               .optional = 3,
                                               .value = most,
                                               .present = present});
    diff_add_counts(s, "total_ns", NULL, 0, 0, c->total_ns);
    diff_add_counts(s, "polls", "Polls", 4, -1, c->polls);
    free(name);
}

int polls_diff_print(FILE *out, const struct polls_diff *d, const struct report_options *o)
{
    static char no_name[] = "";
    const struct polls_change none = {.name = no_name};
    const struct view v = view_of(d, -1);
    struct table t = {.cells = NULL};
    size_t shown = diff_shown(d->count, o);
    sheet_titles(&t, row_columns, &v, &none);
    for (size_t i = 0; i < shown && !t.failed; i++)
        sheet_table(&t, row_columns, &v, &d->rows[i]);
    int err = diff_print_table(out, &t, o);
    if (err)
        return err;
    diff_more(out, shown, d->count, "task", o);
    report_dim(out, o->colour, "slower, faster: the 95 %% intervals of both sides do not overlap");
    return 0;
}

void polls_diff_put(struct json_writer *w, const struct polls_diff *d, double fail_above)
{
    const struct view v = view_of(d, fail_above);
    json_line(w);
    json_add_array(w, "tasks");
    for (size_t i = 0; i < d->count && w->err == 0; i++)
        sheet_put_row(w, row_columns, &v, &d->rows[i]);
    json_line(w);
    json_close(w);
}
