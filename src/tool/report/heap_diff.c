/* Prints a comparison of two heaps as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/json.h"
#include "tool/util/units.h"

static const char *const titles[HEAP_DIFFS] = {"Live", "Peak", "Alloc"};
static const char *const keys[HEAP_DIFFS] = {"live_bytes", "peak_bytes", "alloc_bytes"};

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

static void figure_cells(struct table *t, const struct heap_change *c, enum heap_diff_figure figure)
{
    char text[UNITS_LEN];
    double v[2];
    heap_diff_values(c, figure, v);
    for (int s = 0; s < 2; s++)
        table_cell(t, c->present[s] ? figure_bytes(text, v[s]) : "-");
    table_cell(t, units_bytes_signed(text, figure_whole(v[1] - v[0])));
    diff_percent_cell(t, c->present, v);
    table_cell(t, diff_verdict(v, c->differs[figure], "more", "less"));
}

static int add_row(struct table *t, const struct heap_change *c)
{
    char *name = row_name(c);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    for (int f = 0; f < HEAP_DIFFS; f++)
        figure_cells(t, c, (enum heap_diff_figure)f);
    free(name);
    return 0;
}

static void add_titles(struct table *t, const struct heap_diff *d)
{
    char title[64];
    table_column(t, "Site < caller", TABLE_LEFT, 0);
    for (int f = 0; f < HEAP_DIFFS; f++) {
        bool peak = f == HEAP_DIFF_PEAK;
        for (int s = 0; s < 2; s++)
            diff_column(t, titles[f], d->labels[s], 12, peak ? 4 : f + 1);
        snprintf(title, sizeof(title), "%s Delta", titles[f]);
        table_column(t, title, TABLE_RIGHT, peak ? -5 : 0);
        table_column(t, "%", TABLE_RIGHT, peak ? 6 : f - 4);
        table_column(t, "", TABLE_LEFT, peak ? 5 : f - 3);
    }
}

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
    size_t top = o->all ? d->count : o->top ? o->top : REPORT_TOP;
    size_t shown = d->count < top ? d->count : top;
    int err = 0;
    add_titles(&t, d);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_row(&t, &d->rows[i]);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    table_release(&t);
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

static void put_intervals(struct buf *b, const char *key, const struct heap_diff *d,
                          const struct heap_change *c, enum heap_diff_figure figure)
{
    double v[2][2];
    for (int s = 0; s < 2; s++)
        heap_diff_intervals[figure](&d->sides[s].rec, &c->sum[s], &v[s][0], &v[s][1]);
    buf_printf(b, "\"%s\":[[%lld,%lld],[%lld,%lld]],", key, (long long)figure_whole(v[0][0]),
               (long long)figure_whole(v[0][1]), (long long)figure_whole(v[1][0]),
               (long long)figure_whole(v[1][1]));
}

static void put_figure(struct buf *b, const struct heap_diff *d, const struct heap_change *c,
                       enum heap_diff_figure figure)
{
    static const char *const intervals[] = {"live_bytes_ci95", "peak_bytes_ci95",
                                            "alloc_bytes_ci95"};
    double v[2];
    heap_diff_values(c, figure, v);
    diff_put_pair(b, keys[figure], v);
    put_intervals(b, intervals[figure], d, c, figure);
}

static void put_percent(struct buf *b, const char *key, const struct heap_change *c,
                        enum heap_diff_figure figure)
{
    double v[2];
    heap_diff_values(c, figure, v);
    diff_put_percent(b, key, compare_percent(v));
}

static void put_change(struct buf *b, const struct heap_diff *d, const struct heap_change *c)
{
    const struct recording_sum *s = c->sum;
    put_figure(b, d, c, HEAP_DIFF_LIVE);
    diff_put_pair(b, "live_objects", (double[]){s[0].live_objects, s[1].live_objects});
    put_percent(b, "live_bytes_delta_pct", c, HEAP_DIFF_LIVE);
    diff_put_flag(b, "live_bytes_significant", c->differs[HEAP_DIFF_LIVE]);
    put_figure(b, d, c, HEAP_DIFF_PEAK);
    diff_put_pair(b, "peak_objects", (double[]){s[0].peak_objects, s[1].peak_objects});
    put_percent(b, "peak_bytes_delta_pct", c, HEAP_DIFF_PEAK);
    diff_put_flag(b, "peak_bytes_significant", c->differs[HEAP_DIFF_PEAK]);
    diff_put_pair(b, "alloc_count", (double[]){s[0].allocated_objects, s[1].allocated_objects});
    put_figure(b, d, c, HEAP_DIFF_ALLOCATED);
    put_percent(b, "delta_pct", c, HEAP_DIFF_ALLOCATED);
    buf_printf(b, "\"significant\":%s", c->differs[HEAP_DIFF_ALLOCATED] ? "true" : "false");
}

/* Whether this row makes the command fail, and which figures do. */
static void put_failed(struct buf *b, const struct heap_diff *d, const struct heap_change *c,
                       double fail_above)
{
    bool failed[HEAP_DIFFS];
    if (fail_above < 0)
        return;
    for (int f = 0; f < HEAP_DIFFS; f++)
        failed[f] = heap_diff_grew(d, c, (enum heap_diff_figure)f, fail_above);
    diff_put_failed(b, keys, failed, HEAP_DIFFS);
}

static int put_rows(struct buf *b, FILE *out, const struct heap_diff *d, double fail_above)
{
    int err = 0;
    for (size_t i = 0; i < d->count && err == 0; i++) {
        const struct heap_change *c = &d->rows[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "name", c->function);
        json_put_text(b, "caller", c->caller);
        json_put_text(b, "file", c->file);
        json_put_text(b, "memory", c->mmap ? "mmap" : "malloc");
        buf_puts(b, "\"self_ns\":null,");
        diff_put_flags(b, "present", c->present);
        put_failed(b, d, c, fail_above);
        put_change(b, d, c);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    return err;
}

static void put_total(struct buf *b, const char *key, const struct heap_diff *d, double fail_above)
{
    buf_printf(b, "\n],\n\"%s\":{", key);
    put_failed(b, d, &d->total, fail_above);
    put_change(b, d, &d->total);
    buf_puts(b, "},\n");
}

int heap_diff_put(struct buf *b, FILE *out, const struct heap_diff *d, double fail_above)
{
    buf_puts(b, "\"sites\":[");
    int err = put_rows(b, out, d, fail_above);
    put_total(b, "heap_total", d, fail_above);
    return err;
}

int heap_diff_json(FILE *out, const struct heap_diff *d, double fail_above)
{
    struct buf b = {0};
    buf_puts(&b, "{\"kind\":\"heap\",\"functions\":[");
    int err = put_rows(&b, out, d, fail_above);
    put_total(&b, "total", d, fail_above);
    buf_puts(&b, "\"programs\":[");
    json_put_string(&b, d->sides[0].rec.header.program);
    buf_putc(&b, ',');
    json_put_string(&b, d->sides[1].rec.header.program);
    buf_puts(&b, "],\n\"runs\":[[");
    json_put_string(&b, d->sides[0].rec.path);
    buf_puts(&b, "],[");
    json_put_string(&b, d->sides[1].rec.path);
    buf_puts(&b, "]]}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    return err;
}
