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
#include "tool/profile/cpu_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"

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
    return strncmp(a, b, x < y ? x : y) ?: ORDER(x, y);
}

static int compare_functions(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return strcmp(x->matched, y->matched) ?: ORDER(x->is_own, y->is_own)
        ?: (x->is_own ? 0 : compare_modules(x->module, y->module));
}

/* By function, then the newer side first, because its file is the one shown. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return compare_functions(x, y) ?: ORDER(y->side, x->side) ?: strcmp(x->module, y->module);
}

static void add_part(struct cpu_change *c, const struct part *p)
{
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

static int add_row(void *ctx, void *group, size_t count)
{
    struct cpu_diff *d = ctx;
    const struct part *parts = group;
    struct cpu_change *c = &d->rows[d->count++];
    *c = (struct cpu_change){.function = parts->function, .module = parts->module};
    for (size_t i = 0; i < count; i++)
        add_part(c, &parts[i]);
    judge(c);
    return 0;
}

static double change_of(const struct cpu_change *c)
{
    return fabs(c->self_ns[1] - c->self_ns[0]);
}

static int compare_rows(const void *a, const void *b)
{
    const struct cpu_change *x = a, *y = b;
    return ORDER(change_of(y), change_of(x)) ?: strcmp(x->function, y->function)
        ?: strcmp(x->module, y->module);
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

static size_t add_sites(struct part *parts, const struct profile *p, int side)
{
    for (size_t i = 0; i < p->site_count; i++) {
        const struct heap_site *s = &p->sites[i];
        parts[i] = part_of(&p->rec, side, s->function, s->module, s->file);
        parts[i].site = s;
    }
    return p->site_count;
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
    compare_groups(parts, n, sizeof(*parts), compare_parts, compare_functions, add_row, d);
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

bool cpu_diff_grew(const struct cpu_diff *d, const struct cpu_change *c, double percent)
{
    return c->is_beyond && compare_grew(c->self_ns, percent, c->self_ns[1], d->total.self_ns[1]);
}
