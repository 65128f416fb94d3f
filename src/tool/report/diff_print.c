/* Prints a comparison as a table or as JSON. */
#include "tool/report/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

/* ---- table ---- */

static int64_t whole(double v)
{
    return fabs(v) < 9e18 ? (int64_t)llround(v) : v > 0 ? INT64_MAX : -INT64_MAX;
}

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
        units_count(text, whole(v));
    return text;
}

static const char *count_delta(char *text, double v)
{
    if (fabs(v) < 1000 && fabs(v - round(v)) >= 0.05)
        snprintf(text, UNITS_LEN, "%+.1f", v);
    else
        units_count_signed(text, whole(v));
    return text;
}

/* As in `report`: `~` for an estimate, `~0` for a time that is too small to resolve. */
static void time_cell(struct table *t, const struct diff_row *row, int side)
{
    char text[UNITS_LEN], marked[UNITS_LEN + 1];
    int64_t ns = whole(diff_figure(row, DIFF_SELF, side));
    bool residue = ns == 0 && row->residue[side];
    snprintf(marked, sizeof(marked), "%s%s", row->sampled[side] ? "~" : "", report_time(text, ns));
    table_cell(t, !row->present[side] ? "-" : residue ? "~0" : marked);
}

static void percent_cell(struct table *t, const struct diff_row *row)
{
    char text[UNITS_LEN];
    if (!row->present[0] || !row->present[1])
        table_cell(t, row->present[1] ? "new" : "gone");
    else
        table_cell(t, units_percent_signed(text, diff_percent(row, DIFF_SELF) / 100.0));
}

static void verdict_cell(struct table *t, const struct diff_row *row)
{
    double change = diff_figure(row, DIFF_SELF, 1) - diff_figure(row, DIFF_SELF, 0);
    switch (row->real[DIFF_SELF]) {
    case VERDICT_REAL:
        table_cell(t, change > 0 ? "slower" : "faster");
        break;
    case VERDICT_NOISE:
        table_cell(t, change == 0 ? "" : "noise");
        break;
    default:
        table_cell(t, row->waited && !row->unresolved ? "waited" : "");
    }
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
    char label[2][64], cut[2][64];
    for (int s = 0; s < 2; s++) {
        say_safe(label[s], sizeof(label[s]), d->sides[s].label);
        table_shorten(cut[s], sizeof(cut[s]), label[s], 20);
    }
    table_column(t, "Function", TABLE_LEFT, 0);
    table_column(t, cut[0], TABLE_RIGHT, 0);
    table_column(t, cut[1], TABLE_RIGHT, 0);
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
    table_cell(t, units_time_signed(text, whole(self[1] - self[0])));
    percent_cell(t, row);
    if (verdict)
        verdict_cell(t, row);
    if (!allocs)
        return;
    snprintf(pair, sizeof(pair), "%s -> %s", count_text(text, count[0]),
             count_text(second, count[1]));
    table_cell(t, pair);
    table_cell(t, count_delta(text, count[1] - count[0]));
    table_cell(t, units_bytes_signed(text, whole(bytes[1] - bytes[0])));
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
        report_dim(out, colour, "~ timed by sample, or too small to tell");
    if (unresolved)
        report_dim(out, colour, "no word: changed by less than the probes can tell");
}

static void print_footer(FILE *out, const struct diff *d)
{
    char a[UNITS_LEN], b[UNITS_LEN], delta[UNITS_LEN], part[UNITS_LEN];
    double from = d->sum[DIFF_SELF][0], to = d->sum[DIFF_SELF][1];
    if (d->by_frame) {
        from /= d->frames[0];
        to /= d->frames[1];
    }
    fprintf(out, "\n%s -> %s in all | %s%s%s%s\n", report_time(a, whole(from)),
            report_time(b, whole(to)), units_time_signed(delta, whole(to - from)),
            from > 0 ? " (" : "", from > 0 ? units_percent_signed(part, (to - from) / from) : "",
            from > 0 ? ")" : "");
    if (d->by_frame)
        fprintf(out, "per frame: %lld frames against %lld (outside frames: per run)\n",
                (long long)whole(d->frames[0]), (long long)whole(d->frames[1]));
    if (d->sides[0].count > 1 || d->sides[1].count > 1)
        fprintf(out, "means of %zu and %zu runs\n", d->sides[0].count, d->sides[1].count);
    else if (any_verdict(d))
        fputs("one run a side: judged by their frames alone; repeated runs would show the noise\n",
              out);
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
    if (err == 0 && shown < d->count && !o->top)
        report_dim(out, o->colour, "%zu more function%s: --all", d->count - shown,
                   d->count - shown == 1 ? "" : "s");
    if (err == 0)
        print_notes(out, d, shown, o->colour);
    if (err == 0)
        print_footer(out, d);
    return err;
}

/* ---- JSON ---- */

static void put_pair(struct buf *b, const char *key, const double v[2], bool fraction)
{
    if (fraction)
        buf_printf(b, "\"%s\":[%.3f,%.3f],", key, v[0], v[1]);
    else
        buf_printf(b, "\"%s\":[%lld,%lld],", key, (long long)whole(v[0]), (long long)whole(v[1]));
}

static void put_percent(struct buf *b, const char *key, double v)
{
    if (isfinite(v))
        buf_printf(b, "\"%s\":%.3f,", key, v);
    else
        buf_printf(b, "\"%s\":null,", key);
}

static const char *verdict_text(enum verdict v)
{
    return v == VERDICT_UNKNOWN ? "null" : v == VERDICT_REAL ? "true" : "false";
}

static void put_row(struct buf *b, const struct diff *d, const struct diff_row *row,
                    double fail_above)
{
    buf_puts(b, "{\"name\":");
    json_put_string(b, row->name);
    buf_puts(b, ",\"file\":");
    if (row->file)
        json_put_string(b, row->file);
    else
        buf_puts(b, "null");
    buf_putc(b, ',');
    put_pair(b, "self_ns", row->value[DIFF_SELF], false);
    put_percent(b, "delta_pct", diff_percent(row, DIFF_SELF));
    put_pair(b, "calls", row->calls, false);
    put_pair(b, "alloc_count", row->value[DIFF_ALLOCS], false);
    put_percent(b, "alloc_count_delta_pct", diff_percent(row, DIFF_ALLOCS));
    put_pair(b, "alloc_bytes", row->value[DIFF_BYTES], false);
    put_percent(b, "alloc_bytes_delta_pct", diff_percent(row, DIFF_BYTES));
    if (row->by_frame) {
        put_pair(b, "self_ns_per_frame", row->per_frame[DIFF_SELF], true);
        put_pair(b, "alloc_count_per_frame", row->per_frame[DIFF_ALLOCS], true);
        put_pair(b, "alloc_bytes_per_frame", row->per_frame[DIFF_BYTES], true);
    }
    buf_printf(b, "\"present\":[%s,%s],", row->present[0] ? "true" : "false",
               row->present[1] ? "true" : "false");
    buf_printf(b, "\"alloc_count_significant\":%s,\"alloc_bytes_significant\":%s,",
               verdict_text(row->real[DIFF_ALLOCS]), verdict_text(row->real[DIFF_BYTES]));
    buf_printf(b, "\"sampled\":[%s,%s],\"resolved\":%s,\"waited\":%s,",
               row->sampled[0] ? "true" : "false", row->sampled[1] ? "true" : "false",
               row->unresolved ? "false" : "true", row->waited ? "true" : "false");
    if (fail_above >= 0) {
        bool failed = false;
        for (int m = 0; m < DIFF_MEASURES; m++)
            failed |= diff_grew(d, row, (enum diff_measure)m, fail_above);
        buf_printf(b, "\"failed\":%s,", failed ? "true" : "false");
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
    put_pair(&b, "frames", d->frames, false);
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
