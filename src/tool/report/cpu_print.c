/* `piano report --cpu`: functions by CPU time, for the whole recording or for each process or
 * thread; or the call tree. */
#include "tool/report/cpu.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { CPU_TOP = 20, PART_TOP = 8, PARTS_SHOWN = 20 };
enum { NAME_WIDTH = 80, MODULE_WIDTH = 32 }; /* if the line width is unknown */

static void print_answer(FILE *out, const struct cpu *c)
{
    const struct recording *rec = c->rec;
    char text[UNITS_LEN], source[80];
    heap_print_program(out, rec);
    fprintf(out, " | %s | %llu CPU sample%s, %s", cpu_source_text(source, sizeof(source), rec),
            (unsigned long long)rec->cpu_samples, units_plural(rec->cpu_samples),
            units_time(text, (int64_t)rec->total.cpu_ns));
    if (rec->off_samples)
        fprintf(out, " | %llu switch%s, off the CPU %s", (unsigned long long)rec->off_samples,
                rec->off_samples == 1 ? "" : "es", units_time(text, (int64_t)rec->total.off_ns));
    if (rec->total.preempted_ns)
        fprintf(out, ", waiting for one %s", units_time(text, (int64_t)rec->total.preempted_ns));
    fputc('\n', out);
}

/* A table fits its columns to a terminal. For a file or a pipe, this limits the length of names. */
static void add_text(struct table *t, const char *text, size_t width,
                     const struct report_options *o)
{
    char cut[4 * NAME_WIDTH + 8];
    if (o->width == 0 && !o->all) {
        table_shorten(cut, sizeof(cut), text, width);
        text = cut;
    }
    table_cell(t, text);
}

static int add_row(struct table *t, const struct cpu_row *row, const struct cpu_flat *f, bool off,
                   const struct report_options *o)
{
    char text[UNITS_LEN], module[200];
    char *name = heap_name(row->function, false);
    double all = f->cpu_ns ? (double)f->cpu_ns : 1;
    if (!name)
        return -ENOMEM;
    add_text(t, name, NAME_WIDTH, o);
    table_cell(t, units_time(text, (int64_t)row->self_ns));
    table_cell(t, units_percent(text, (double)row->self_ns / all));
    table_cell(t, units_time(text, (int64_t)row->total_ns));
    table_cell(t, units_percent(text, (double)row->total_ns / all));
    table_cell(t, units_count(text, (int64_t)row->self_samples));
    if (off)
        table_cell(t, row->off_ns ? units_time(text, (int64_t)row->off_ns) : "");
    add_text(t, say_safe(module, sizeof(module), row->module), MODULE_WIDTH, o);
    free(name);
    return 0;
}

static int print_flat(FILE *out, const struct cpu_flat *f, size_t top,
                      const struct report_options *o)
{
    struct table t = {.cells = NULL};
    bool off = f->switches > 0;
    size_t shown = f->count < top ? f->count : top;
    int err = 0;
    if (f->count == 0) {
        fputs("no samples\n", out);
        return 0;
    }
    table_column(&t, "Function", TABLE_LEFT, 0);
    table_column(&t, "Self", TABLE_RIGHT, 0);
    table_column(&t, "%", TABLE_RIGHT, 0);
    table_column(&t, "Total", TABLE_RIGHT, -2);
    table_column(&t, "%", TABLE_RIGHT, 2);
    table_column(&t, "Samples", TABLE_RIGHT, 1);
    if (off)
        table_column(&t, "Off CPU", TABLE_RIGHT, -3);
    table_column(&t, "Module", TABLE_LEFT, -4);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_row(&t, &f->rows[i], f, off, o);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    if (err == 0 && shown < f->count)
        report_dim(out, o->colour, "%zu more function%s%s", f->count - shown,
                   units_plural(f->count - shown), o->top ? "" : ": --all");
    table_release(&t);
    return err;
}

static void print_part_name(FILE *out, const struct cpu *c, const struct cpu_part *p,
                            const struct report_options *o)
{
    char name[100], cpu[UNITS_LEN];
    fprintf(out, "\n%s", o->colour ? "\x1b[1m" : "");
    if (p->tid && c->process_count > 1)
        fprintf(out, "Process %u, ", p->pid);
    if (p->tid)
        fprintf(out, "%s", cpu_thread_name(name, sizeof(name), c->rec, p->tid));
    else
        fprintf(out, "Process %s", cpu_thread_name(name, sizeof(name), c->rec, p->pid));
    fprintf(out, "%s | on the CPU %s, %llu sample%s", o->colour ? "\x1b[0m" : "",
            units_time(cpu, (int64_t)p->cpu_ns), (unsigned long long)p->samples,
            units_plural(p->samples));
    if (c->rec->off_samples)
        fprintf(out, " | off %s", units_time(cpu, (int64_t)p->off_ns));
    if (p->preempted_ns)
        fprintf(out, ", waiting for a CPU %s", units_time(cpu, (int64_t)p->preempted_ns));
    fputc('\n', out);
}

/* Prints a table for each entry of LIST. Processes without CPU samples (a shell that only
 * started the next program) appear only with --all. */
static int print_parts(FILE *out, struct cpu *c, const struct cpu_part *list, size_t count,
                       const struct report_options *o)
{
    size_t top = o->all ? SIZE_MAX : o->top ? o->top : PART_TOP;
    size_t shown = o->all || count < PARTS_SHOWN ? count : PARTS_SHOWN;
    int err = 0;
    if (count > 0 && list[0].tid == 0 && !o->all) {
        shown = o->top && o->top < shown ? o->top : shown;
        while (shown > 0 && list[shown - 1].samples == 0)
            shown--;
    }
    for (size_t i = 0; i < shown && err == 0; i++) {
        struct cpu_flat f;
        err = cpu_flat_make(&f, c, list[i].pid, list[i].tid);
        if (err == 0) {
            print_part_name(out, c, &list[i], o);
            err = print_flat(out, &f, top, o);
        }
        cpu_flat_release(&f);
    }
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more: --all", count - shown);
    return err;
}

static int print_all(FILE *out, struct cpu *c, const struct report_options *o)
{
    struct cpu_flat f;
    int err = cpu_flat_make(&f, c, 0, 0);
    fputc('\n', out);
    if (err == 0)
        err = print_flat(out, &f, o->all ? SIZE_MAX : o->top ? o->top : CPU_TOP, o);
    cpu_flat_release(&f);
    return err;
}

int cpu_report(FILE *out, struct cpu *c, const struct cpu_options *h,
               const struct report_options *o)
{
    print_answer(out, c);
    if (h->tree)
        return heap_print_tree(out, c->profile, h->off ? HEAP_OFF_CPU : HEAP_CPU, o);
    if (h->threads)
        return print_parts(out, c, c->threads, c->thread_count, o);
    int err = print_all(out, c, o);
    if (err || c->process_count < 2)
        return err;
    if (o->all || c->processes[1].samples > 0)
        return print_parts(out, c, c->processes, c->process_count, o);
    report_dim(out, o->colour, "all of process %u; %zu more without a sample: --all",
               c->processes[0].pid, c->process_count - 1);
    return 0;
}
