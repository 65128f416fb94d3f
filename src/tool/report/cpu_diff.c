/* Compares the functions of two recordings by the CPU time of their samples.
 *
 * The number of samples in a function is random. N samples have an error of the square root of
 * N, like counts of rare independent events (Poisson). Samples with different weights count with
 * their squares. A change is beyond the noise if it exceeds 2.58 times the combined error of
 * both sides (99 %) plus one sample. Counts are whole numbers: without that sample, a few
 * samples against none would too often count as a change.
 *
 * Functions are matched by name and module. The program itself is one module whatever its file
 * is called. A library matches whatever its version. */
#include "tool/report/cpu_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const double matters = 0.01;       /* share of the total of side B */
static const double two_sided_99 = 2.576; /* standard deviations */

/* ---- matching ---- */

struct part {
    const char *function, *module, *file;
    const char *matched; /* the function, without the file name of its program */
    int side;
    bool is_own;               /* belongs to the program itself */
    const struct cpu_row *row; /* set: `row` or `site` */
    const struct heap_site *site;
};

static bool is_own(const struct recording *rec, const char *module)
{
    static const char deleted[] = " (deleted)";
    const char *name = paths_base(rec->header.program);
    size_t len = strlen(name);
    return strncmp(module, name, len) == 0 && (!module[len] || strcmp(module + len, deleted) == 0);
}

/* Length of the name without the version. */
static size_t module_len(const char *module)
{
    const char *version = strstr(module, ".so");
    return version ? (size_t)(version - module) : strlen(module);
}

static int compare_modules(const char *a, const char *b)
{
    size_t x = module_len(a), y = module_len(b);
    int order = strncmp(a, b, x < y ? x : y);
    return order ? order : (x > y) - (x < y);
}

static int compare_functions(const struct part *x, const struct part *y)
{
    int order = strcmp(x->matched, y->matched);
    order = order ? order : (int)x->is_own - (int)y->is_own;
    return order || x->is_own ? order : compare_modules(x->module, y->module);
}

/* By function, then the newer side first, because its file is the one shown. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = compare_functions(x, y);
    order = order ? order : y->side - x->side;
    return order ? order : strcmp(x->module, y->module);
}

static void add_part(struct cpu_diff *d, const struct part *p, bool is_new)
{
    if (is_new)
        d->rows[d->count++] = (struct cpu_change){.function = p->function, .module = p->module};
    struct cpu_change *c = &d->rows[d->count - 1];
    c->file = c->file ? c->file : p->file;
    if (p->site) {
        c->alloc_count[p->side] += p->site->sum.allocated_objects;
        c->alloc_bytes[p->side] += p->site->sum.allocated_bytes;
        return;
    }
    c->present[p->side] = true;
    c->self_ns[p->side] += (double)p->row->self_ns;
    c->total_ns[p->side] += (double)p->row->total_ns;
    c->squares[p->side] += p->row->self_squares;
    c->samples[p->side] += p->row->self_samples;
}

static void judge(struct cpu_change *c)
{
    double one = 0; /* the time that one sample stands for; the larger of both sides */
    for (int s = 0; s < 2; s++)
        one = c->samples[s] ? fmax(one, c->self_ns[s] / (double)c->samples[s]) : one;
    c->noise = one + two_sided_99 * sqrt(c->squares[0] + c->squares[1]);
    c->is_beyond = fabs(c->self_ns[1] - c->self_ns[0]) > c->noise;
}

static int compare_rows(const void *a, const void *b)
{
    const struct cpu_change *x = a, *y = b;
    double by[2] = {fabs(x->self_ns[1] - x->self_ns[0]), fabs(y->self_ns[1] - y->self_ns[0])};
    if (by[0] > by[1] || by[0] < by[1])
        return by[0] > by[1] ? -1 : 1;
    int order = strcmp(x->function, y->function);
    return order ? order : strcmp(x->module, y->module);
}

static struct part part_of(const struct recording *rec, int side, const char *function,
                           const char *module, const char *file)
{
    return (struct part){.function = function,
                         .module = module,
                         .file = file,
                         .matched = profile_name_within(function, paths_base(rec->header.program)),
                         .side = side,
                         .is_own = is_own(rec, module)};
}

static size_t add_rows(struct part *parts, const struct cpu_flat *f, const struct recording *rec,
                       int side)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct cpu_row *r = &f->rows[i];
        parts[i] = part_of(rec, side, r->function, r->module, r->file);
        parts[i].row = r;
    }
    return f->count;
}

static size_t add_sites(struct part *parts, const struct profile *heap, int side)
{
    for (size_t i = 0; i < heap->site_count; i++) {
        const struct heap_site *s = &heap->sites[i];
        parts[i] = part_of(&heap->rec, side, s->function, s->module, s->file);
        parts[i].site = s;
    }
    return heap->site_count;
}

static void sum_up(struct cpu_diff *d, const struct cpu_flat flats[2])
{
    d->total = (struct cpu_change){.function = "in all", .module = "", .present = {true, true}};
    for (int s = 0; s < 2; s++) {
        d->total.self_ns[s] = d->total.total_ns[s] = (double)flats[s].cpu_ns;
        d->total.samples[s] = flats[s].samples;
        d->total.squares[s] = d->has_cpu ? d->recs[s]->total.cpu_squares : 0;
    }
    judge(&d->total);
}

static int match(struct cpu_diff *d, const struct cpu_flat flats[2], const struct profile *heaps)
{
    size_t most = flats[0].count + flats[1].count, n = 0;
    for (int s = 0; s < 2 && heaps; s++)
        most += heaps[s].site_count;
    struct part *parts = calloc(most + 1, sizeof(*parts));
    d->rows = calloc(most + 1, sizeof(*d->rows));
    if (!parts || !d->rows) {
        free(parts);
        return -ENOMEM;
    }
    for (int s = 0; s < 2; s++) {
        n += add_rows(parts + n, &flats[s], d->recs[s], s);
        n += heaps ? add_sites(parts + n, &heaps[s], s) : 0;
    }
    qsort(parts, n, sizeof(*parts), compare_parts);
    for (size_t i = 0; i < n; i++)
        add_part(d, &parts[i], i == 0 || compare_functions(&parts[i - 1], &parts[i]) != 0);
    for (size_t i = 0; i < d->count; i++)
        judge(&d->rows[i]);
    qsort(d->rows, d->count, sizeof(*d->rows), compare_rows);
    free(parts);
    return 0;
}

int cpu_diff_make(struct cpu_diff *d, struct cpu sides[2], const struct profile heaps[2],
                  const char *const labels[2])
{
    struct cpu_flat flats[2] = {{.rows = NULL}, {.rows = NULL}};
    int err = 0;
    *d = (struct cpu_diff){
        .labels = {labels[0], labels[1]}, .has_cpu = sides != NULL, .has_heap = heaps != NULL};
    for (int s = 0; s < 2; s++) {
        d->recs[s] = sides ? sides[s].rec : &heaps[s].rec;
        err = err == 0 && sides ? cpu_flat_make(&flats[s], &sides[s], 0, 0) : err;
    }
    if (err == 0)
        err = match(d, flats, heaps);
    if (err == 0)
        sum_up(d, flats);
    for (int s = 0; s < 2; s++)
        cpu_flat_release(&flats[s]);
    if (err)
        cpu_diff_release(d);
    return err;
}

void cpu_diff_release(struct cpu_diff *d)
{
    free(d->rows);
    *d = (struct cpu_diff){.rows = NULL};
}

double cpu_diff_percent(const struct cpu_change *c)
{
    double a = c->self_ns[0], b = c->self_ns[1];
    return a > 0 ? (b - a) / a * 100.0 : b > 0 ? INFINITY : 0;
}

bool cpu_diff_grew(const struct cpu_diff *d, const struct cpu_change *c, double percent)
{
    return c->is_beyond && c->self_ns[1] > c->self_ns[0] && cpu_diff_percent(c) > percent &&
           c->self_ns[1] >= matters * d->total.self_ns[1];
}

/* ---- text ---- */

static const char *verdict(const struct cpu_change *c)
{
    double by = c->self_ns[1] - c->self_ns[0];
    if (c->is_beyond)
        return by > 0 ? "slower" : "faster";
    return by > 0 || by < 0 ? "noise" : "";
}

static void time_cells(struct table *t, const struct cpu_change *c)
{
    char text[UNITS_LEN];
    for (int s = 0; s < 2; s++)
        table_cell(t, c->present[s] ? units_time(text, heap_whole(c->self_ns[s])) : "-");
    table_cell(t, units_time_signed(text, heap_whole(c->self_ns[1] - c->self_ns[0])));
    if (!c->present[0] || !c->present[1])
        table_cell(t, c->present[1] ? "new" : "gone");
    else
        table_cell(t, isfinite(cpu_diff_percent(c))
                          ? units_percent_signed(text, cpu_diff_percent(c) / 100.0)
                          : "-");
    table_cell(t, verdict(c));
}

static int add_row(struct table *t, const struct cpu_change *c)
{
    char first[UNITS_LEN], second[UNITS_LEN], pair[2 * UNITS_LEN + 4], module[300];
    char *name = heap_name(c->function, false);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    free(name);
    time_cells(t, c);
    snprintf(pair, sizeof(pair), "%s -> %s", units_count(first, (int64_t)c->samples[0]),
             units_count(second, (int64_t)c->samples[1]));
    table_cell(t, pair);
    table_cell(t, say_safe(module, sizeof(module), c->module));
    return 0;
}

static void add_titles(struct table *t, const struct cpu_diff *d)
{
    char safe[64], cut[64];
    table_column(t, "Function", TABLE_LEFT, 0);
    for (int s = 0; s < 2; s++) {
        say_safe(safe, sizeof(safe), d->labels[s]);
        table_shorten(cut, sizeof(cut), safe, 20);
        table_column(t, cut, TABLE_RIGHT, 0);
    }
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
    char from[UNITS_LEN], to[UNITS_LEN], delta[UNITS_LEN], part[UNITS_LEN];
    double a = d->total.self_ns[0], b = d->total.self_ns[1];
    fprintf(out, "\nCPU time %s -> %s in all | %s%s%s%s%s\n", units_time(from, heap_whole(a)),
            units_time(to, heap_whole(b)), units_time_signed(delta, heap_whole(b - a)),
            a > 0 ? " (" : "", a > 0 ? units_percent_signed(part, (b - a) / a) : "",
            a > 0 ? ")" : "", d->total.is_beyond ? "" : ", within the noise of the samples");
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
    if (shown < all && !o->top)
        report_dim(out, o->colour, "%zu more function%s: --all", all - shown,
                   all - shown == 1 ? "" : "s");
    print_total(out, d);
    report_dim(out, o->colour,
               "slower, faster: more than 2.58 times the error of the samples (99 %%); what "
               "differs from run to run is not in that");
    return 0;
}

/* ---- JSON ---- */

static void put_pair(struct buf *b, const char *key, const double v[2])
{
    buf_printf(b, "\"%s\":[%lld,%lld],", key, (long long)heap_whole(v[0]),
               (long long)heap_whole(v[1]));
}

static void put_times(struct buf *b, const struct cpu_diff *d, const struct cpu_change *c,
                      double fail_above)
{
    double percent = cpu_diff_percent(c);
    put_pair(b, "self_ns", c->self_ns);
    put_pair(b, "total_ns", c->total_ns);
    buf_printf(b, "\"samples\":[%llu,%llu],\"noise_ns\":%lld,", (unsigned long long)c->samples[0],
               (unsigned long long)c->samples[1], (long long)heap_whole(c->noise));
    if (isfinite(percent))
        buf_printf(b, "\"delta_pct\":%.3f,", percent);
    else
        buf_puts(b, "\"delta_pct\":null,");
    if (fail_above >= 0)
        buf_printf(b, "\"failed\":%s,", cpu_diff_grew(d, c, fail_above) ? "true" : "false");
    buf_printf(b, "\"significant\":%s", c->is_beyond ? "true" : "false");
}

static void put_row(struct buf *b, const struct cpu_diff *d, const struct cpu_change *c,
                    double fail_above)
{
    json_put_text(b, "name", c->function);
    json_put_text(b, "module", c->module);
    json_put_text(b, "file", c->file);
    buf_printf(b, "\"present\":[%s,%s],", c->present[0] ? "true" : "false",
               c->present[1] ? "true" : "false");
    if (d->has_heap) {
        put_pair(b, "alloc_count", c->alloc_count);
        put_pair(b, "alloc_bytes", c->alloc_bytes);
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
