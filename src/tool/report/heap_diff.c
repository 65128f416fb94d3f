/* Compares two heap recordings. Sites are matched by the names of the function and its caller.
 * Load address, build, line numbers and the file name of the program do not matter.
 *
 * Both sides are estimates. A change counts as real if the 95 % intervals of both sides do not
 * overlap. This is stricter than a test of the difference, and easy to check by hand. */
#include "tool/report/heap_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const double matters = 0.01; /* share of the total of side B */

const char *const heap_diff_names[HEAP_DIFFS] = {"live bytes", "peak bytes", "allocated bytes"};
static const char *const titles[HEAP_DIFFS] = {"Live", "Peak", "Alloc"};
static const char *const keys[HEAP_DIFFS] = {"live_bytes", "peak_bytes", "alloc_bytes"};

typedef void interval_fn(const struct recording *rec, const struct recording_sum *sum, double *low,
                         double *high);
static interval_fn *const intervals[HEAP_DIFFS] = {recording_live_interval, recording_peak_interval,
                                                   recording_allocated_interval};

static double figure_of(const struct recording_sum *sum, int figure)
{
    return figure == HEAP_DIFF_LIVE   ? sum->live_bytes
           : figure == HEAP_DIFF_PEAK ? sum->peak_bytes
                                      : sum->allocated_bytes;
}

/* ---- matching ---- */

struct part {
    const struct heap_site *site;
    const char *function, *caller; /* the names used for matching */
    int side;
};

static int compare_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int compare_names(const struct part *x, const struct part *y)
{
    int order = strcmp(x->function, y->function);
    order = order ? order : compare_text(x->caller, y->caller);
    return order ? order : (int)x->site->mmap - (int)y->site->mmap;
}

/* By name, then the newer side first, because its file is the one shown. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = compare_names(x, y);
    order = order ? order : y->side - x->side;
    order = order ? order : compare_text(x->site->file, y->site->file);
    return order ? order : (x->site->line > y->site->line) - (x->site->line < y->site->line);
}

static bool apart(const double a[2], const double b[2])
{
    return a[0] > b[1] || b[0] > a[1];
}

static double share(double a, double b, double all)
{
    return all > 0 ? fabs(b - a) / all : 0;
}

static void judge_row(const struct heap_diff *d, struct heap_change *c)
{
    const struct recording_sum *t = d->total.sum;
    for (int f = 0; f < HEAP_DIFFS; f++) {
        double between[2][2];
        for (int s = 0; s < 2; s++)
            intervals[f](&d->sides[s].rec, &c->sum[s], &between[s][0], &between[s][1]);
        c->differs[f] = apart(between[0], between[1]);
        c->impact = fmax(c->impact, share(figure_of(&c->sum[0], f), figure_of(&c->sum[1], f),
                                          fmax(figure_of(&t[0], f), figure_of(&t[1], f))));
    }
}

static int compare_rows(const void *a, const void *b)
{
    const struct heap_change *x = a, *y = b;
    if (x->impact > y->impact || x->impact < y->impact)
        return x->impact > y->impact ? -1 : 1;
    int order = strcmp(x->function, y->function);
    return order ? order : compare_text(x->caller, y->caller);
}

static struct part part_of(const struct heap_site *site, int side, const char *program)
{
    return (struct part){.site = site,
                         .function = profile_name_within(site->function, program),
                         .caller = site->caller ? profile_name_within(site->caller, program) : NULL,
                         .side = side};
}

static void add_part(struct heap_diff *d, const struct part *p, bool new)
{
    if (new)
        d->rows[d->count++] = (struct heap_change){.function = p->site->function,
                                                   .caller = p->site->caller,
                                                   .file = p->site->file,
                                                   .mmap = p->site->mmap};
    struct heap_change *row = &d->rows[d->count - 1];
    row->present[p->side] = true;
    recording_sum_add(&row->sum[p->side], &p->site->sum);
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
    qsort(parts, n, sizeof(*parts), compare_parts);
    for (size_t i = 0; i < n; i++)
        add_part(d, &parts[i], i == 0 || compare_names(&parts[i - 1], &parts[i]) != 0);
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

static double percent(double a, double b)
{
    if (a > 0)
        return (b - a) / a * 100.0;
    return b > 0 ? INFINITY : 0;
}

double heap_diff_percent(const struct heap_change *c, enum heap_diff_figure figure)
{
    return percent(figure_of(&c->sum[0], figure), figure_of(&c->sum[1], figure));
}

bool heap_diff_grew(const struct heap_diff *d, const struct heap_change *c,
                    enum heap_diff_figure figure, double by)
{
    double all = figure_of(&d->total.sum[1], figure);
    return c->differs[figure] && heap_diff_percent(c, figure) > by &&
           figure_of(&c->sum[1], figure) >= all * matters;
}

static const char *program_of(char *safe, size_t size, const struct recording *rec)
{
    return say_safe(safe, size, paths_base(rec->header.program));
}

void heap_diff_notices(const struct recording *a, const struct recording *b)
{
    char first[300], second[300];
    program_of(first, sizeof(first), a);
    program_of(second, sizeof(second), b);
    if (strcmp(first, second) != 0)
        say("these are recordings of different programs: %s and %s", first, second);
}

/* ---- text ---- */

static char *row_name(const struct heap_change *c)
{
    char *name = heap_name(c->function, c->mmap);
    char *caller = c->caller ? heap_name(c->caller, false) : NULL;
    struct buf b = {0};
    if (name)
        buf_printf(&b, "%s%s%s", name, caller ? " < " : "", caller ? caller : "");
    free(name);
    free(caller);
    return b.failed ? NULL : b.data;
}

static const char *verdict(double a, double b, bool differs)
{
    if (differs)
        return b > a ? "more" : "less";
    return a < b || a > b ? "noise" : "";
}

static void figure_cells(struct table *t, const struct heap_change *c, int figure)
{
    char text[UNITS_LEN];
    double v[2];
    for (int s = 0; s < 2; s++) {
        v[s] = figure_of(&c->sum[s], figure);
        table_cell(t, c->present[s] ? heap_bytes(text, v[s]) : "-");
    }
    table_cell(t, units_bytes_signed(text, heap_whole(v[1] - v[0])));
    if (!c->present[0] || !c->present[1])
        table_cell(t, c->present[1] ? "new" : "gone");
    else
        table_cell(t, units_percent_signed(text, percent(v[0], v[1]) / 100.0));
    table_cell(t, verdict(v[0], v[1], c->differs[figure]));
}

static int add_row(struct table *t, const struct heap_change *c)
{
    char *name = row_name(c);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    for (int f = 0; f < HEAP_DIFFS; f++)
        figure_cells(t, c, f);
    free(name);
    return 0;
}

static void add_titles(struct table *t, const struct heap_diff *d)
{
    char safe[64], cut[32], title[64];
    table_column(t, "Site < caller", TABLE_LEFT, 0);
    for (int f = 0; f < HEAP_DIFFS; f++) {
        for (int s = 0; s < 2; s++) {
            say_safe(safe, sizeof(safe), d->labels[s]);
            table_shorten(cut, sizeof(cut), safe, 12);
            snprintf(title, sizeof(title), "%s %s", titles[f], cut);
            table_column(t, title, TABLE_RIGHT, f == HEAP_DIFF_PEAK ? 4 : f + 1);
        }
        snprintf(title, sizeof(title), "%s Delta", titles[f]);
        table_column(t, title, TABLE_RIGHT, f == HEAP_DIFF_PEAK ? -5 : 0);
        table_column(t, "%", TABLE_RIGHT, f == HEAP_DIFF_PEAK ? 6 : f - 4);
        table_column(t, "", TABLE_LEFT, f == HEAP_DIFF_PEAK ? 5 : f - 3);
    }
}

static void print_total(FILE *out, const char *what, double a, double b, bool differs)
{
    char from[UNITS_LEN], to[UNITS_LEN], delta[UNITS_LEN], part[UNITS_LEN];
    fprintf(out, "%s %s -> %s | %s%s%s%s%s\n", what, heap_bytes(from, a), heap_bytes(to, b),
            units_bytes_signed(delta, heap_whole(b - a)), a > 0 ? " (" : "",
            a > 0 ? units_percent_signed(part, (b - a) / a) : "", a > 0 ? ")" : "",
            differs ? "" : ", within the 95 % intervals");
}

int heap_diff_print(FILE *out, const struct heap_diff *d, const struct report_options *o)
{
    struct table t = {.cells = NULL};
    size_t top = o->all ? d->count : o->top ? o->top : REPORT_TOP;
    size_t shown = d->count < top ? d->count : top;
    const struct recording_sum *s = d->total.sum;
    int err = 0;
    add_titles(&t, d);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_row(&t, &d->rows[i]);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    table_release(&t);
    if (err)
        return err;
    if (shown < d->count && !o->top)
        report_dim(out, o->colour, "%zu more site%s: --all", d->count - shown,
                   d->count - shown == 1 ? "" : "s");
    fputc('\n', out);
    print_total(out, "live     ", s[0].live_bytes, s[1].live_bytes,
                d->total.differs[HEAP_DIFF_LIVE]);
    print_total(out, "peak     ", s[0].peak_bytes, s[1].peak_bytes,
                d->total.differs[HEAP_DIFF_PEAK]);
    print_total(out, "allocated", s[0].allocated_bytes, s[1].allocated_bytes,
                d->total.differs[HEAP_DIFF_ALLOCATED]);
    report_dim(out, o->colour, "more, less: the 95 %% intervals of both sides do not touch");
    return 0;
}

/* ---- JSON ---- */

static void put_pair(struct buf *b, const char *key, double first, double second)
{
    buf_printf(b, "\"%s\":[%lld,%lld],", key, (long long)heap_whole(first),
               (long long)heap_whole(second));
}

static void put_flag(struct buf *b, const char *key, bool value)
{
    buf_printf(b, "\"%s\":%s,", key, value ? "true" : "false");
}

static void put_percent(struct buf *b, const char *key, double v)
{
    if (isfinite(v))
        buf_printf(b, "\"%s\":%.3f,", key, v);
    else
        buf_printf(b, "\"%s\":null,", key);
}

static void put_intervals(struct buf *b, const char *key, const struct heap_diff *d,
                          const struct heap_change *c, interval_fn *interval)
{
    double v[2][2];
    for (int s = 0; s < 2; s++)
        interval(&d->sides[s].rec, &c->sum[s], &v[s][0], &v[s][1]);
    buf_printf(b, "\"%s\":[[%lld,%lld],[%lld,%lld]],", key, (long long)heap_whole(v[0][0]),
               (long long)heap_whole(v[0][1]), (long long)heap_whole(v[1][0]),
               (long long)heap_whole(v[1][1]));
}

static void put_change(struct buf *b, const struct heap_diff *d, const struct heap_change *c)
{
    const struct recording_sum *s = c->sum;
    put_pair(b, "live_bytes", s[0].live_bytes, s[1].live_bytes);
    put_intervals(b, "live_bytes_ci95", d, c, recording_live_interval);
    put_pair(b, "live_objects", s[0].live_objects, s[1].live_objects);
    put_percent(b, "live_bytes_delta_pct", heap_diff_percent(c, HEAP_DIFF_LIVE));
    put_flag(b, "live_bytes_significant", c->differs[HEAP_DIFF_LIVE]);
    put_pair(b, "peak_bytes", s[0].peak_bytes, s[1].peak_bytes);
    put_intervals(b, "peak_bytes_ci95", d, c, recording_peak_interval);
    put_pair(b, "peak_objects", s[0].peak_objects, s[1].peak_objects);
    put_percent(b, "peak_bytes_delta_pct", heap_diff_percent(c, HEAP_DIFF_PEAK));
    put_flag(b, "peak_bytes_significant", c->differs[HEAP_DIFF_PEAK]);
    put_pair(b, "alloc_count", s[0].allocated_objects, s[1].allocated_objects);
    put_pair(b, "alloc_bytes", s[0].allocated_bytes, s[1].allocated_bytes);
    put_intervals(b, "alloc_bytes_ci95", d, c, recording_allocated_interval);
    put_percent(b, "delta_pct", heap_diff_percent(c, HEAP_DIFF_ALLOCATED));
    buf_printf(b, "\"significant\":%s", c->differs[HEAP_DIFF_ALLOCATED] ? "true" : "false");
}

/* Whether this row makes the command fail, and which figures do. */
static void put_failed(struct buf *b, const struct heap_diff *d, const struct heap_change *c,
                       double fail_above)
{
    const char *comma = "";
    bool failed = false;
    if (fail_above < 0)
        return;
    buf_puts(b, "\"failed_by\":[");
    for (int f = 0; f < HEAP_DIFFS; f++)
        if (heap_diff_grew(d, c, (enum heap_diff_figure)f, fail_above)) {
            buf_printf(b, "%s\"%s\"", comma, keys[f]);
            comma = ",";
            failed = true;
        }
    buf_puts(b, "],");
    put_flag(b, "failed", failed);
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
        buf_printf(b, "\"self_ns\":null,\"present\":[%s,%s],", c->present[0] ? "true" : "false",
                   c->present[1] ? "true" : "false");
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
