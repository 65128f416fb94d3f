/* Prints a comparison of CPU samples as a table or as JSON. */
#include "tool/report/recordings_diff.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/profile/compare.h"
#include "tool/report/diff_parts.h"
#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static int add_row(struct table *t, const struct cpu_change *c)
{
    char text[UNITS_LEN], module[300];
    char *name = profile_safe_name(c->function, false);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    free(name);
    for (int s = 0; s < 2; s++)
        table_cell(t, c->present[s] ? units_time(text, figure_whole(c->self_ns[s])) : "-");
    table_cell(t, units_time_signed(text, figure_whole(c->self_ns[1] - c->self_ns[0])));
    diff_percent_cell(t, c->present, c->self_ns);
    table_cell(t, diff_verdict(c->self_ns, c->is_beyond, "slower", "faster"));
    diff_count_cell(t, c->samples);
    table_cell(t, say_safe(module, sizeof(module), c->module));
    return 0;
}

static void add_titles(struct table *t, const struct cpu_diff *d)
{
    table_column(t, "Function", TABLE_LEFT, 0);
    for (int s = 0; s < 2; s++)
        diff_column(t, NULL, d->labels[s], 20, 0);
    table_column(t, "Delta", TABLE_RIGHT, 0);
    table_column(t, "%", TABLE_RIGHT, 0);
    table_column(t, "", TABLE_LEFT, 0);
    table_column(t, "Samples", TABLE_RIGHT, 2);
    table_column(t, "Module", TABLE_LEFT, 1);
}

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
    size_t top = o->all ? d->count : o->top ? o->top : REPORT_TOP, shown = 0, all = 0;
    int err = 0;
    add_titles(&t, d);
    for (size_t i = 0; i < d->count && err == 0; i++) {
        if (!is_shown(&d->rows[i]))
            continue;
        if (all++ < top) {
            err = add_row(&t, &d->rows[i]);
            shown++;
        }
    }
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    table_release(&t);
    if (err)
        return err;
    diff_more(out, shown, all, "function", o);
    print_total(out, d);
    report_dim(out, o->colour,
               "slower, faster: beyond 2.58 times the sampling error (99 %%); differences between "
               "runs are not included");
    return 0;
}

/* ---- JSON ---- */

static void put_times(struct buf *b, const struct cpu_diff *d, const struct cpu_change *c,
                      double fail_above)
{
    diff_put_pair(b, "self_ns", c->self_ns);
    diff_put_pair(b, "total_ns", c->total_ns);
    buf_printf(b, "\"samples\":[%llu,%llu],\"noise_ns\":%lld,", (unsigned long long)c->samples[0],
               (unsigned long long)c->samples[1], (long long)figure_whole(c->noise));
    diff_put_percent(b, "delta_pct", compare_percent(c->self_ns));
    if (fail_above >= 0)
        diff_put_flag(b, "failed", cpu_diff_grew(d, c, fail_above));
    buf_printf(b, "\"significant\":%s", c->is_beyond ? "true" : "false");
}

static void put_row(struct buf *b, const struct cpu_diff *d, const struct cpu_change *c,
                    double fail_above)
{
    json_put_text(b, "name", c->function);
    json_put_text(b, "module", c->module);
    json_put_text(b, "file", c->file);
    diff_put_flags(b, "present", c->present);
    if (d->has_heap) {
        diff_put_pair(b, "alloc_count", c->alloc_count);
        diff_put_pair(b, "alloc_bytes", c->alloc_bytes);
    } else {
        buf_puts(b, "\"alloc_count\":null,\"alloc_bytes\":null,");
    }
    if (d->has_cpu)
        put_times(b, d, c, fail_above);
    else
        buf_puts(b, "\"self_ns\":null,\"delta_pct\":null,\"significant\":null");
}

int cpu_diff_put(struct buf *b, FILE *out, const struct cpu_diff *d, double fail_above)
{
    int err = 0;
    buf_puts(b, "\"functions\":[");
    for (size_t i = 0; i < d->count && err == 0; i++) {
        buf_puts(b, i ? ",\n{" : "\n{");
        put_row(b, d, &d->rows[i], fail_above);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "\n],\n");
    if (d->has_cpu) {
        buf_puts(b, "\"cpu_total\":{");
        put_times(b, d, &d->total, fail_above);
        buf_puts(b, "},\n");
    }
    return err;
}
