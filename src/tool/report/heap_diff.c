/* Prints a comparison of two heaps as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/units.h"

/* The columns of each figure. OPTIONAL is for both sides, change, percent and verdict. */
static const struct figure_keys {
    const char *title, *delta, *key, *interval, *objects, *percent, *significant;
    int optional[4];
} figures[HEAP_DIFFS] = {
    {"Live",
     "Live Delta",
     "live_bytes",
     "live_bytes_ci95",
     "live_objects",
     "live_bytes_delta_pct",
     "live_bytes_significant",
     {1, 0, -4, -3}},
    {"Peak",
     "Peak Delta",
     "peak_bytes",
     "peak_bytes_ci95",
     "peak_objects",
     "peak_bytes_delta_pct",
     "peak_bytes_significant",
     {4, -5, 6, 5}},
    {"Alloc",
     "Alloc Delta",
     "alloc_bytes",
     "alloc_bytes_ci95",
     "alloc_count",
     "delta_pct",
     "significant",
     {3, 0, -2, -1}},
};

struct view {
    const struct heap_diff *d;
    double fail_above;
    struct diff_titles titles[HEAP_DIFFS];
};

static struct view view_of(const struct heap_diff *d, double fail_above)
{
    struct view v = {.d = d, .fail_above = fail_above};
    for (int f = 0; f < HEAP_DIFFS; f++)
        diff_titles(&v.titles[f], figures[f].title, d->labels, 12);
    return v;
}

/* ---- columns ---- */

/* malloc'd */
static char *row_name(const struct heap_change *c)
{
    char *name = profile_safe_name(c->function, c->mmap);
    char *caller = c->caller ? profile_safe_name(c->caller, false) : NULL;
    struct buf b = {0};
    if (name)
        buf_printf(&b, "%s%s%s", name, caller ? " < " : "", caller ? caller : "");
    free(name);
    free(caller);
    return b.failed ? NULL : b.data;
}

static void put_intervals(struct json_writer *w, const struct heap_diff *d,
                          const struct heap_change *c, enum heap_diff_figure figure)
{
    double v[2];
    if (!w)
        return;
    json_add_array(w, figures[figure].interval);
    for (int s = 0; s < 2; s++) {
        heap_diff_intervals[figure](&d->sides[s].rec, &c->sum[s], &v[0], &v[1]);
        diff_put_pair(w, NULL, v);
    }
    json_close(w);
}

static void put_objects(struct json_writer *w, const struct heap_change *c,
                        enum heap_diff_figure figure)
{
    const struct recording_sum *s = c->sum;
    const double live[2] = {s[0].live_objects, s[1].live_objects};
    const double peak[2] = {s[0].peak_objects, s[1].peak_objects};
    const double allocated[2] = {s[0].allocated_objects, s[1].allocated_objects};
    diff_put_pair(w, figures[figure].objects,
                  figure == HEAP_DIFF_LIVE   ? live
                  : figure == HEAP_DIFF_PEAK ? peak
                                             : allocated);
}

static void figure_columns(struct sheet *s, const struct view *v, const struct heap_change *c,
                           enum heap_diff_figure figure)
{
    const struct figure_keys *f = &figures[figure];
    double value[2];
    heap_diff_values(c, figure, value);
    if (figure == HEAP_DIFF_ALLOCATED)
        put_objects(s->json, c, figure);
    diff_add_pair(s, &(const struct diff_pair){.kind = SHEET_BYTES,
                                               .key = f->key,
                                               .titles = &v->titles[figure],
                                               .optional = f->optional[0],
                                               .value = value,
                                               .present = c->present,
                                               .is_known = true});
    put_intervals(s->json, v->d, c, figure);
    if (figure != HEAP_DIFF_ALLOCATED)
        put_objects(s->json, c, figure);
    diff_add_delta(s, SHEET_BYTES, f->delta, f->optional[1], value);
    diff_add_percent(s, f->percent, compare_percent(value), f->optional[2], c->present, value);
    diff_add_verdict(s, f->significant, c->differs[figure], f->optional[3],
                     diff_verdict(value, c->differs[figure], "more", "less"));
}

/* Whether this row makes the command fail, and which figures do. */
static void put_failed(struct json_writer *w, const struct view *v, const struct heap_change *c)
{
    const char *keys[HEAP_DIFFS];
    bool failed[HEAP_DIFFS];
    if (v->fail_above < 0)
        return;
    for (int f = 0; f < HEAP_DIFFS; f++) {
        keys[f] = figures[f].key;
        failed[f] = heap_diff_grew(v->d, c, (enum heap_diff_figure)f, v->fail_above);
    }
    diff_put_failed(w, keys, failed, HEAP_DIFFS);
}

static void total_columns(struct sheet *s, const void *ctx, const void *of)
{
    put_failed(s->json, ctx, of);
    for (int f = 0; f < HEAP_DIFFS; f++)
        figure_columns(s, ctx, of, (enum heap_diff_figure)f);
}

static void row_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct heap_change *c = of;
    char *name = s->table ? row_name(c) : NULL;
    if (s->table && !name)
        s->texts.failed = true;
    SHEET(s, TEXT, "name", "Site < caller", .text = c->function, .shown = name);
    SHEET(s, TEXT, "caller", NULL, .text = c->caller);
    SHEET(s, TEXT, "file", NULL, .text = c->file);
    SHEET(s, TEXT, "memory", NULL, .text = c->mmap ? "mmap" : "malloc");
    SHEET(s, TIME, "self_ns", NULL, .unknown = true);
    diff_put_flags(s->json, "present", c->present);
    total_columns(s, ctx, of);
    free(name);
}

/* ---- table ---- */

static void print_total(FILE *out, const struct heap_diff *d, enum heap_diff_figure figure)
{
    static const char *const names[HEAP_DIFFS] = {"live     ", "peak     ", "allocated"};
    char from[UNITS_LEN], to[UNITS_LEN], delta[UNITS_LEN];
    double v[2];
    heap_diff_values(&d->total, figure, v);
    fprintf(out, "%s %s -> %s ", names[figure], figure_bytes(from, v[0]), figure_bytes(to, v[1]));
    diff_total(out, v, units_bytes_signed(delta, figure_whole(v[1] - v[0])));
    fputs(d->total.differs[figure] ? "\n" : ", within the 95 % intervals\n", out);
}

int heap_diff_print(FILE *out, const struct heap_diff *d, const struct report_options *o)
{
    struct table t = {.cells = NULL};
    const struct view v = view_of(d, -1);
    size_t shown = diff_shown(d->count, o);
    sheet_titles(&t, row_columns, &v, &d->total);
    for (size_t i = 0; i < shown && !t.failed; i++)
        sheet_table(&t, row_columns, &v, &d->rows[i]);
    int err = diff_print_table(out, &t, o);
    if (err)
        return err;
    diff_more(out, shown, d->count, "site", o);
    fputc('\n', out);
    for (int f = 0; f < HEAP_DIFFS; f++)
        print_total(out, d, (enum heap_diff_figure)f);
    report_dim(out, o->colour, "more, less: the 95 %% intervals of both sides do not overlap");
    return 0;
}

/* ---- JSON ---- */

static void put_rows(struct json_writer *w, const char *key, const char *total,
                     const struct view *v)
{
    json_add_array(w, key);
    for (size_t i = 0; i < v->d->count && w->err == 0; i++)
        sheet_put_row(w, row_columns, v, &v->d->rows[i]);
    json_line(w);
    json_close(w);
    json_line(w);
    json_add_object(w, total);
    sheet_put(w, total_columns, v, &v->d->total);
    json_close(w);
}

void heap_diff_put(struct json_writer *w, const struct heap_diff *d, double fail_above)
{
    const struct view v = view_of(d, fail_above);
    json_line(w);
    put_rows(w, "sites", "heap_total", &v);
}

int heap_diff_json(FILE *out, const struct heap_diff *d, double fail_above)
{
    struct json_writer w = {.out = out};
    const struct view v = view_of(d, fail_above);
    json_add_object(&w, NULL);
    json_add_text(&w, "kind", "heap");
    put_rows(&w, "functions", "total", &v);
    recordings_diff_put_paths(&w, &d->sides[0].rec, &d->sides[1].rec);
    return json_finish(&w);
}
