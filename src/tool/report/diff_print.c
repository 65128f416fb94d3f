/* Prints a comparison as a table or as JSON. */
#include "tool/report/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/profile.h"
#include "tool/report/diff_parts.h"
#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

/* ---- table ---- */

static void name_cell(struct table *t, const struct diff *d, size_t at)
{
    const struct diff_row *row = &d->rows[at];
    size_t size = strlen(row->name) * 8 + 1;
    char *safe = malloc(size), file[256];
    struct buf b = {0};
    buf_puts(&b, safe ? say_safe(safe, size, row->name) : "?");
    if (row->file && row->namesake)
        buf_printf(&b, " (%s)", say_safe(file, sizeof(file), row->file));
    table_cell(t, b.data ? b.data : "?");
    buf_free(&b);
    free(safe);
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
static void time_cell(struct table *t, const struct diff_row *row, int side)
{
    char text[UNITS_LEN], marked[UNITS_LEN + 1];
    int64_t ns = figure_whole(diff_figure(row, DIFF_SELF, side));
    bool residue = ns == 0 && row->residue[side];
    snprintf(marked, sizeof(marked), "%s%s", row->sampled[side] ? "~" : "", report_time(text, ns));
    table_cell(t, !row->present[side] ? "-" : residue ? "~0" : marked);
}

static void verdict_cell(struct table *t, const struct diff_row *row, const double self[2])
{
    enum verdict v = row->real[DIFF_SELF];
    if (v == VERDICT_UNKNOWN)
        table_cell(t, row->waited && !row->unresolved ? "waited" : "");
    else
        table_cell(t, diff_verdict(self, v == VERDICT_REAL, "slower", "faster"));
}

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

static void add_titles(struct table *t, const struct diff *d, bool allocs, bool verdict)
{
    table_column(t, "Function", TABLE_LEFT, 0);
    for (int s = 0; s < 2; s++)
        diff_column(t, NULL, d->sides[s].label, 20, 0);
    table_column(t, "Delta", TABLE_RIGHT, 0);
    table_column(t, "%", TABLE_RIGHT, 0);
    if (verdict)
        table_column(t, "", TABLE_LEFT, 0);
    if (allocs) {
        table_column(t, "Allocs", TABLE_RIGHT, 1);
        table_column(t, "Delta", TABLE_RIGHT, 0);
        table_column(t, "Bytes", TABLE_RIGHT, 0);
    }
}

static void add_row(struct table *t, const struct diff *d, size_t at, bool allocs, bool verdict)
{
    const struct diff_row *row = &d->rows[at];
    char text[UNITS_LEN], pair[2 * UNITS_LEN + 4], second[UNITS_LEN];
    double self[2] = {diff_figure(row, DIFF_SELF, 0), diff_figure(row, DIFF_SELF, 1)};
    double count[2] = {diff_figure(row, DIFF_ALLOCS, 0), diff_figure(row, DIFF_ALLOCS, 1)};
    double bytes[2] = {diff_figure(row, DIFF_BYTES, 0), diff_figure(row, DIFF_BYTES, 1)};
    name_cell(t, d, at);
    for (int s = 0; s < 2; s++)
        time_cell(t, row, s);
    table_cell(t, units_time_signed(text, figure_whole(self[1] - self[0])));
    diff_percent_cell(t, row->present, self);
    if (verdict)
        verdict_cell(t, row, self);
    if (!allocs)
        return;
    snprintf(pair, sizeof(pair), "%s -> %s", count_text(text, count[0]),
             count_text(second, count[1]));
    table_cell(t, pair);
    table_cell(t, count_delta(text, count[1] - count[0]));
    table_cell(t, units_bytes_signed(text, figure_whole(bytes[1] - bytes[0])));
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
    struct table t = {.cells = NULL};
    bool allocs = any_allocs(d), verdict = any_verdict(d);
    size_t top = o->all ? d->count : o->top ? o->top : REPORT_TOP;
    size_t shown = d->count < top ? d->count : top;
    add_titles(&t, d, allocs, verdict);
    for (size_t i = 0; i < shown; i++)
        add_row(&t, d, i, allocs, verdict);
    int err = table_print(&t, out, o->width, o->colour);
    table_release(&t);
    if (err)
        return err;
    diff_more(out, shown, d->count, "function", o);
    print_notes(out, d, shown, o->colour);
    print_footer(out, d);
    return 0;
}

/* ---- JSON ---- */

static void put_means(struct buf *b, const char *key, const double v[2])
{
    buf_printf(b, "\"%s\":[%.3f,%.3f],", key, v[0], v[1]);
}

static const char *verdict_text(enum verdict v)
{
    return v == VERDICT_UNKNOWN ? "null" : v == VERDICT_REAL ? "true" : "false";
}

static void put_row(struct buf *b, const struct diff *d, const struct diff_row *row,
                    double fail_above)
{
    buf_putc(b, '{');
    json_put_text(b, "name", row->name);
    json_put_text(b, "file", row->file);
    diff_put_pair(b, "self_ns", row->value[DIFF_SELF]);
    diff_put_percent(b, "delta_pct", diff_percent(row, DIFF_SELF));
    diff_put_pair(b, "calls", row->calls);
    if (d->lacks_allocs) {
        buf_puts(b, "\"alloc_count\":null,\"alloc_count_delta_pct\":null,\"alloc_bytes\":null,"
                    "\"alloc_bytes_delta_pct\":null,");
    } else {
        diff_put_pair(b, "alloc_count", row->value[DIFF_ALLOCS]);
        diff_put_percent(b, "alloc_count_delta_pct", diff_percent(row, DIFF_ALLOCS));
        diff_put_pair(b, "alloc_bytes", row->value[DIFF_BYTES]);
        diff_put_percent(b, "alloc_bytes_delta_pct", diff_percent(row, DIFF_BYTES));
    }
    if (row->by_frame) {
        put_means(b, "self_ns_per_frame", row->per_frame[DIFF_SELF]);
        if (!d->lacks_allocs) {
            put_means(b, "alloc_count_per_frame", row->per_frame[DIFF_ALLOCS]);
            put_means(b, "alloc_bytes_per_frame", row->per_frame[DIFF_BYTES]);
        }
    }
    diff_put_flags(b, "present", row->present);
    buf_printf(b, "\"alloc_count_significant\":%s,\"alloc_bytes_significant\":%s,",
               verdict_text(row->real[DIFF_ALLOCS]), verdict_text(row->real[DIFF_BYTES]));
    diff_put_flags(b, "sampled", row->sampled);
    diff_put_flag(b, "resolved", !row->unresolved);
    diff_put_flag(b, "waited", row->waited);
    if (fail_above >= 0) {
        bool failed = false;
        for (int m = 0; m < DIFF_MEASURES; m++)
            failed |= diff_grew(d, row, (enum diff_measure)m, fail_above);
        diff_put_flag(b, "failed", failed);
    }
    buf_printf(b, "\"significant\":%s}", verdict_text(row->real[DIFF_SELF]));
}

int diff_print_json(FILE *out, const struct diff *d, double fail_above)
{
    struct buf b = {0};
    int err = 0;
    buf_puts(&b, "{\"functions\":[");
    for (size_t i = 0; i < d->count && err == 0; i++) {
        buf_puts(&b, i ? ",\n" : "\n");
        put_row(&b, d, &d->rows[i], fail_above);
        err = buf_flush(&b, out, false);
    }
    bool repeated = d->sides[0].count > 1 && d->sides[1].count > 1;
    buf_printf(&b, "\n],\n\"basis\":\"%s\",\"judged_by\":%s,", d->by_frame ? "frame" : "run",
               repeated         ? "\"runs\""
               : any_verdict(d) ? "\"frames\""
                                : "null");
    diff_put_flag(&b, "without_runq", d->without_runq);
    diff_put_pair(&b, "frames", d->frames);
    buf_puts(&b, "\"runs\":[");
    for (int s = 0; s < 2; s++) {
        buf_puts(&b, s ? ",[" : "[");
        for (size_t r = 0; r < d->sides[s].count; r++) {
            buf_puts(&b, r ? "," : "");
            json_put_string(&b, d->sides[s].runs[r].path);
        }
        buf_putc(&b, ']');
    }
    buf_puts(&b, "]}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    return err;
}
