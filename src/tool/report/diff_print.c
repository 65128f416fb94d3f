/* Prints a comparison as a table or as JSON. */
#include "tool/report/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/profile.h"
#include "tool/report/diff_parts.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

struct view {
    const struct diff *d;
    double fail_above;
    bool allocs, verdict; /* which columns the table has */
    struct diff_titles titles;
};

/* ---- columns ---- */

/* Safe to show, with the file if several functions have this name; malloc'd. */
static char *row_name(const struct diff_row *row)
{
    size_t size = strlen(row->name) * 8 + 1;
    char *safe = malloc(size), file[256];
    struct buf b = {0};
    buf_puts(&b, safe ? say_safe(safe, size, row->name) : "?");
    if (row->file && row->namesake)
        buf_printf(&b, " (%s)", say_safe(file, sizeof(file), row->file));
    free(safe);
    return b.data;
}

/* Counts per frame and means are rarely whole numbers. */
static const char *count_text(char *text, double v)
{
    if (fabs(v) < 1000 && fabs(v - round(v)) >= 0.05)
        snprintf(text, UNITS_LEN, "%.1f", v);
    else
        units_count(text, figure_whole(v));
    return text;
}

static const char *count_delta(char *text, double v)
{
    if (fabs(v) < 1000 && fabs(v - round(v)) >= 0.05)
        snprintf(text, UNITS_LEN, "%+.1f", v);
    else
        units_count_signed(text, figure_whole(v));
    return text;
}

/* As in `report`: `~` for an estimate, `~0` for a time that is too small to resolve. */
static void add_time(struct sheet *s, const struct view *v, const struct diff_row *row, int side)
{
    char text[UNITS_LEN], marked[UNITS_LEN + 1];
    int64_t ns = figure_whole(diff_figure(row, DIFF_SELF, side));
    bool residue = ns == 0 && row->residue[side];
    snprintf(marked, sizeof(marked), "%s%s", row->sampled[side] ? "~" : "", report_time(text, ns));
    SHEET(s, TIME, NULL, v->titles.text[side],
          .shown = !row->present[side] ? "-"
                   : residue           ? "~0"
                                       : marked);
}

static const char *verdict_word(const struct diff_row *row, const double self[2])
{
    enum verdict v = row->real[DIFF_SELF];
    if (v == VERDICT_UNKNOWN)
        return row->waited && !row->unresolved ? "waited" : "";
    return diff_verdict(self, v == VERDICT_REAL, "slower", "faster");
}

static void add_time_change(struct sheet *s, const struct diff_row *row)
{
    const double self[2] = {diff_figure(row, DIFF_SELF, 0), diff_figure(row, DIFF_SELF, 1)};
    diff_put_pair(s->json, "self_ns", row->value[DIFF_SELF]);
    diff_add_delta(s, SHEET_TIME, "Delta", 0, self);
    diff_add_percent(s, "delta_pct", diff_percent(row, DIFF_SELF), 0, row->present, self);
}

/* In the table, allocations stand right of all figures of time. */
static void add_allocs(struct sheet *s, const struct view *v, const struct diff_row *row)
{
    char first[UNITS_LEN], second[UNITS_LEN], pair[2 * UNITS_LEN + 4], delta[UNITS_LEN];
    double count[2] = {diff_figure(row, DIFF_ALLOCS, 0), diff_figure(row, DIFF_ALLOCS, 1)};
    double bytes[2] = {diff_figure(row, DIFF_BYTES, 0), diff_figure(row, DIFF_BYTES, 1)};
    if (!s->table || !v->allocs)
        return;
    snprintf(pair, sizeof(pair), "%s -> %s", count_text(first, count[0]),
             count_text(second, count[1]));
    SHEET(s, COUNT, NULL, "Allocs", .place = 1, .optional = 1, .shown = pair);
    SHEET(s, COUNT, NULL, "Delta", .place = 1, .shown = count_delta(delta, count[1] - count[0]));
    SHEET(s, BYTES_SIGNED, NULL, "Bytes", .place = 1, .number = figure_whole(bytes[1] - bytes[0]));
}

static void put_means(struct json_writer *w, const char *key, const double v[2])
{
    json_add_array(w, key);
    for (int s = 0; s < 2; s++)
        json_add_real(w, NULL, 3, v[s]);
    json_close(w);
}

static void put_verdict(struct json_writer *w, const char *key, enum verdict v)
{
    if (v == VERDICT_UNKNOWN)
        json_add_null(w, key);
    else
        json_add_flag(w, key, v == VERDICT_REAL);
}

static void put_allocs(struct json_writer *w, const struct diff *d, const struct diff_row *row)
{
    if (d->lacks_allocs) {
        json_add_null(w, "alloc_count");
        json_add_null(w, "alloc_count_delta_pct");
        json_add_null(w, "alloc_bytes");
        json_add_null(w, "alloc_bytes_delta_pct");
        return;
    }
    diff_put_pair(w, "alloc_count", row->value[DIFF_ALLOCS]);
    diff_put_percent(w, "alloc_count_delta_pct", diff_percent(row, DIFF_ALLOCS));
    diff_put_pair(w, "alloc_bytes", row->value[DIFF_BYTES]);
    diff_put_percent(w, "alloc_bytes_delta_pct", diff_percent(row, DIFF_BYTES));
}

static void put_per_frame(struct json_writer *w, const struct diff *d, const struct diff_row *row)
{
    if (!row->by_frame)
        return;
    put_means(w, "self_ns_per_frame", row->per_frame[DIFF_SELF]);
    if (!d->lacks_allocs) {
        put_means(w, "alloc_count_per_frame", row->per_frame[DIFF_ALLOCS]);
        put_means(w, "alloc_bytes_per_frame", row->per_frame[DIFF_BYTES]);
    }
}

/* The members that no column of the table shows. */
static void put_rest(struct json_writer *w, const struct view *v, const struct diff_row *row)
{
    const struct diff *d = v->d;
    diff_put_pair(w, "calls", row->calls);
    put_allocs(w, d, row);
    put_per_frame(w, d, row);
    diff_put_flags(w, "present", row->present);
    put_verdict(w, "alloc_count_significant", row->real[DIFF_ALLOCS]);
    put_verdict(w, "alloc_bytes_significant", row->real[DIFF_BYTES]);
    diff_put_flags(w, "sampled", row->sampled);
    json_add_flag(w, "resolved", !row->unresolved);
    json_add_flag(w, "waited", row->waited);
    if (v->fail_above >= 0) {
        bool failed = false;
        for (int m = 0; m < DIFF_MEASURES; m++)
            failed |= diff_grew(d, row, (enum diff_measure)m, v->fail_above);
        json_add_flag(w, "failed", failed);
    }
    put_verdict(w, "significant", row->real[DIFF_SELF]);
}

static void row_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct diff_row *row = of;
    const double self[2] = {diff_figure(row, DIFF_SELF, 0), diff_figure(row, DIFF_SELF, 1)};
    char *name = s->table ? row_name(row) : NULL;
    SHEET(s, TEXT, "name", "Function", .text = row->name, .shown = name);
    SHEET(s, TEXT, "file", NULL, .text = row->file);
    for (int side = 0; side < 2; side++)
        add_time(s, v, row, side);
    add_time_change(s, row);
    SHEET(s, TEXT, NULL, v->verdict ? "" : NULL, .shown = verdict_word(row, self));
    add_allocs(s, v, row);
    if (s->json)
        put_rest(s->json, v, row);
    free(name);
}

/* ---- table ---- */

static bool any_allocs(const struct diff *d)
{
    return d->sum[DIFF_ALLOCS][0] > 0 || d->sum[DIFF_ALLOCS][1] > 0;
}

static bool any_verdict(const struct diff *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->rows[i].real[DIFF_SELF] != VERDICT_UNKNOWN || d->rows[i].waited)
            return true;
    return false;
}

static struct view view_of(const struct diff *d, double fail_above)
{
    const char *const labels[2] = {d->sides[0].label, d->sides[1].label};
    struct view v = {
        .d = d, .fail_above = fail_above, .allocs = any_allocs(d), .verdict = any_verdict(d)};
    diff_titles(&v.titles, NULL, labels, 20);
    return v;
}

static void print_notes(FILE *out, const struct diff *d, size_t shown, bool colour)
{
    bool sampled = false, unresolved = false;
    for (size_t i = 0; i < shown; i++) {
        const struct diff_row *row = &d->rows[i];
        sampled |= row->sampled[0] || row->sampled[1] || row->residue[0] || row->residue[1];
        unresolved |= row->unresolved && row->untold;
    }
    if (sampled)
        report_dim(out, colour, "~ estimated from a sample of calls, or below timing resolution");
    if (unresolved)
        report_dim(out, colour, "blank: below timing resolution");
}

static void print_footer(FILE *out, const struct diff *d)
{
    char a[UNITS_LEN], b[UNITS_LEN], delta[UNITS_LEN];
    double v[2];
    for (int s = 0; s < 2; s++)
        v[s] = d->by_frame ? d->sum[DIFF_SELF][s] / d->frames[s] : d->sum[DIFF_SELF][s];
    fprintf(out, "\n%s -> %s in all ", report_time(a, figure_whole(v[0])),
            report_time(b, figure_whole(v[1])));
    diff_total(out, v, units_time_signed(delta, figure_whole(v[1] - v[0])));
    fputc('\n', out);
    if (d->by_frame)
        fprintf(out, "per frame: %lld frames against %lld (outside frames: per run)\n",
                (long long)figure_whole(d->frames[0]), (long long)figure_whole(d->frames[1]));
    if (d->sides[0].count > 1 || d->sides[1].count > 1)
        fprintf(out, "means of %zu and %zu runs\n", d->sides[0].count, d->sides[1].count);
    else if (any_verdict(d))
        fputs("one run per side: judged by frames only; repeated runs would show the noise\n", out);
    if (d->without_runq)
        fputs("threads waited for a CPU: times are without these waits (--wall: with them)\n", out);
}

int diff_print(FILE *out, const struct diff *d, const struct report_options *o)
{
    static const struct diff_row none = {.name = ""};
    struct table t = {.cells = NULL};
    const struct view v = view_of(d, -1);
    size_t shown = diff_shown(d->count, o);
    sheet_titles(&t, row_columns, &v, &none);
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, row_columns, &v, &d->rows[i]);
    int err = diff_print_table(out, &t, o);
    if (err)
        return err;
    diff_more(out, shown, d->count, "function", o);
    print_notes(out, d, shown, o->colour);
    print_footer(out, d);
    return 0;
}

/* ---- JSON ---- */

static void put_runs(struct json_writer *w, const struct diff *d)
{
    json_add_array(w, "runs");
    for (int s = 0; s < 2; s++) {
        json_add_array(w, NULL);
        for (size_t r = 0; r < d->sides[s].count; r++)
            json_add_text(w, NULL, d->sides[s].runs[r].path);
        json_close(w);
    }
    json_close(w);
}

int diff_print_json(FILE *out, const struct diff *d, double fail_above)
{
    struct json_writer w = {.out = out};
    const struct view v = view_of(d, fail_above);
    json_add_object(&w, NULL);
    json_add_array(&w, "functions");
    for (size_t i = 0; i < d->count && w.err == 0; i++)
        sheet_put_row(&w, row_columns, &v, &d->rows[i]);
    json_line(&w);
    json_close(&w);
    bool repeated = d->sides[0].count > 1 && d->sides[1].count > 1;
    json_line(&w);
    json_add_text(&w, "basis", d->by_frame ? "frame" : "run");
    json_add_text(&w, "judged_by", repeated ? "runs" : v.verdict ? "frames" : NULL);
    json_add_flag(&w, "without_runq", d->without_runq);
    diff_put_pair(&w, "frames", d->frames);
    put_runs(&w, d);
    return json_finish(&w);
}
