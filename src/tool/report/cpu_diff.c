/* Prints a comparison of CPU samples as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/units.h"

struct view {
    const struct cpu_diff *d;
    double fail_above;
    struct diff_titles titles;
};

static struct view view_of(const struct cpu_diff *d, double fail_above)
{
    struct view v = {.d = d, .fail_above = fail_above};
    diff_titles(&v.titles, NULL, d->labels, 20);
    return v;
}

/* ---- columns ---- */

static void time_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct cpu_change *c = of;
    diff_add_pair(s, &(const struct diff_pair){.kind = SHEET_TIME,
                                               .key = "self_ns",
                                               .titles = &v->titles,
                                               .value = c->self_ns,
                                               .present = c->present,
                                               .is_known = true});
    diff_put_pair(s->json, "total_ns", c->total_ns);
    diff_add_delta(s, SHEET_TIME, "Delta", 0, c->self_ns);
    diff_add_counts(s, "samples", "Samples", 2, 1, c->samples);
    SHEET(s, TIME, "noise_ns", NULL, .number = figure_whole(c->noise));
    diff_add_percent(s, "delta_pct", compare_percent(c->self_ns), 0, c->present, c->self_ns);
    if (s->json && v->fail_above >= 0)
        json_add_flag(s->json, "failed", cpu_diff_grew(v->d, c, v->fail_above));
    diff_add_verdict(s, "significant", c->is_beyond, 0,
                     diff_verdict(c->self_ns, c->is_beyond, "slower", "faster"));
}

static void put_allocations(struct json_writer *w, const struct view *v, const struct cpu_change *c)
{
    if (v->d->has_heap) {
        diff_put_pair(w, "alloc_count", c->alloc_count);
        diff_put_pair(w, "alloc_bytes", c->alloc_bytes);
    } else if (w) {
        json_add_null(w, "alloc_count");
        json_add_null(w, "alloc_bytes");
    }
}

static void row_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct cpu_change *c = of;
    char *name = s->table ? profile_safe_name(c->function, false) : NULL;
    if (s->table && !name)
        s->texts.failed = true;
    SHEET(s, TEXT, "name", "Function", .text = c->function, .shown = name);
    SHEET(s, TEXT, "module", "Module", .text = c->module, .optional = 1, .place = 2);
    SHEET(s, TEXT, "file", NULL, .text = c->file);
    diff_put_flags(s->json, "present", c->present);
    put_allocations(s->json, v, c);
    if (v->d->has_cpu) {
        time_columns(s, ctx, of);
    } else if (s->json) {
        json_add_null(s->json, "self_ns");
        json_add_null(s->json, "delta_pct");
        json_add_null(s->json, "significant");
    }
    free(name);
}

/* ---- table ---- */

static bool is_shown(const struct cpu_change *c)
{
    return c->self_ns[0] > 0 || c->self_ns[1] > 0;
}

static void print_total(FILE *out, const struct cpu_diff *d)
{
    char from[UNITS_LEN], to[UNITS_LEN], delta[UNITS_LEN];
    const double *v = d->total.self_ns;
    fprintf(out, "\nCPU time %s -> %s in all ", units_time(from, figure_whole(v[0])),
            units_time(to, figure_whole(v[1])));
    diff_total(out, v, units_time_signed(delta, figure_whole(v[1] - v[0])));
    fputs(d->total.is_beyond ? "\n" : ", within the noise of the samples\n", out);
}

int cpu_diff_print(FILE *out, const struct cpu_diff *d, const struct report_options *o)
{
    struct table t = {.cells = NULL};
    const struct view v = view_of(d, -1);
    size_t all = 0, top = diff_shown(d->count, o);
    sheet_titles(&t, row_columns, &v, &d->total);
    for (size_t i = 0; i < d->count && !t.failed; i++)
        if (is_shown(&d->rows[i]) && all++ < top)
            sheet_table(&t, row_columns, &v, &d->rows[i]);
    int err = diff_print_table(out, &t, o);
    if (err)
        return err;
    diff_more(out, all < top ? all : top, all, "function", o);
    print_total(out, d);
    report_dim(out, o->colour,
               "slower, faster: beyond 2.58 times the sampling error (99 %%); differences between "
               "runs are not included");
    return 0;
}

/* ---- JSON ---- */

void cpu_diff_put(struct json_writer *w, const struct cpu_diff *d, double fail_above)
{
    const struct view v = view_of(d, fail_above);
    json_add_array(w, "functions");
    for (size_t i = 0; i < d->count && w->err == 0; i++)
        sheet_put_row(w, row_columns, &v, &d->rows[i]);
    json_line(w);
    json_close(w);
    if (d->has_cpu) {
        json_line(w);
        json_add_object(w, "cpu_total");
        sheet_put(w, time_columns, &v, &d->total);
        json_close(w);
    }
}
