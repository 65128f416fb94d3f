/* `piano report --cpu`: functions by CPU time, for the whole recording or for each process or
 * thread; or the call tree. docs/json.md describes every key of the JSON. */
#include "tool/report/cpu.h"

#include "tool/load/coverage.h"
#include "tool/util/sheet.h"
#include "tool/util/units.h"

enum { CPU_TOP = 20, PART_TOP = 8, PARTS_SHOWN = 20 };
enum { NAME_WIDTH = 80, MODULE_WIDTH = 32 }; /* if the line width is unknown */

struct view {
    const struct cpu_flat *flat;
    bool off; /* times off the CPU are known */
    bool cut; /* a table fits its columns to a terminal; a file or a pipe needs a limit */
};

static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct cpu_row *row = of;
    double all = v->flat->cpu_ns ? (double)v->flat->cpu_ns : 1;
    SHEET(s, TEXT, "name", "Function", .text = row->function, .most = v->cut ? NAME_WIDTH : 0);
    SHEET(s, TEXT, "module", "Module", .text = row->module, .most = v->cut ? MODULE_WIDTH : 0,
          .optional = -4, .place = 1);
    SHEET(s, TEXT, "file", NULL, .text = row->file);
    SHEET(s, TIME, "self_ns", "Self", .count = row->self_ns);
    SHEET(s, SHARE, NULL, "%", .real = (double)row->self_ns / all);
    SHEET(s, TIME, "total_ns", "Total", .count = row->total_ns, .optional = -2);
    SHEET(s, SHARE, NULL, "%", .real = (double)row->total_ns / all, .optional = 2);
    SHEET(s, COUNT, "samples", "Samples", .count = row->self_samples, .optional = 1);
    SHEET(s, COUNT, "total_samples", NULL, .count = row->total_samples);
    SHEET(s, TIME, "off_cpu_ns", v->off ? "Off CPU" : NULL, .count = row->off_ns,
          .unknown = !v->off, .shown = row->off_ns ? NULL : "", .optional = -3);
}

/* ---- tables ---- */

static void print_answer(FILE *out, const struct cpu *c)
{
    const struct recording *rec = c->rec;
    char text[UNITS_LEN], source[80], covered[80];
    heap_print_program(out, rec);
    fprintf(out, " | %s | %llu CPU sample%s, %s", cpu_source_text(source, sizeof(source), rec),
            (unsigned long long)rec->cpu_samples, units_plural(rec->cpu_samples),
            units_time(text, (int64_t)rec->total.cpu_ns));
    if (*coverage_text(covered, sizeof(covered), &rec->header.trace))
        fprintf(out, " | %s", covered);
    if (rec->off_samples)
        fprintf(out, " | %llu switch%s, off the CPU %s", (unsigned long long)rec->off_samples,
                rec->off_samples == 1 ? "" : "es", units_time(text, (int64_t)rec->total.off_ns));
    if (rec->total.preempted_ns)
        fprintf(out, ", waiting for one %s", units_time(text, (int64_t)rec->total.preempted_ns));
    fputc('\n', out);
}

static int print_flat(FILE *out, const struct cpu_flat *f, size_t top,
                      const struct report_options *o)
{
    const struct view v = {f, f->switches > 0, o->width == 0 && !o->all};
    struct table t = {.cells = NULL};
    size_t shown = f->count < top ? f->count : top;
    if (f->count == 0) {
        fputs("no samples\n", out);
        return 0;
    }
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, columns, &v, &f->rows[i]);
    int err = table_print(&t, out, o->width, o->colour);
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
    if (c->rec->has_off)
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
        return heap_print_tree(out, c->profile, h->off ? FIGURE_OFF_CPU : FIGURE_CPU, o);
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

/* ---- JSON ---- */

static void put_functions(struct json_writer *w, struct cpu *c, uint32_t pid, uint32_t tid,
                          const struct report_options *o)
{
    struct cpu_flat f;
    const struct view v = {&f, c->rec->has_off, false};
    json_keep_error(w, cpu_flat_make(&f, c, pid, tid));
    size_t count = o->top && o->top < f.count ? o->top : f.count;
    json_add_array(w, "functions");
    for (size_t i = 0; i < count && w->err == 0; i++)
        sheet_put_row(w, columns, &v, &f.rows[i]);
    json_close(w);
    cpu_flat_release(&f);
}

static void put_parts(struct json_writer *w, struct cpu *c, const char *key,
                      const struct cpu_part *list, size_t count, bool functions,
                      const struct report_options *o)
{
    bool off = c->rec->has_off;
    json_line(w);
    json_add_array(w, key);
    for (size_t i = 0; i < count && w->err == 0; i++) {
        const struct cpu_part *p = &list[i];
        const struct recording_thread *t = recording_thread_of(c->rec, p->tid ? p->tid : p->pid);
        json_add_row(w);
        json_add_text(w, "name", t && t->name[0] ? t->name : NULL);
        json_add_count(w, "pid", p->pid);
        if (p->tid)
            json_add_count(w, "tid", p->tid);
        json_add_count(w, "cpu_ns", p->cpu_ns);
        json_add_count(w, "samples", p->samples);
        json_add_known_count(w, "off_cpu_ns", off, p->off_ns);
        json_add_known_count(w, "run_queue_ns", off, p->preempted_ns);
        if (functions)
            put_functions(w, c, p->pid, p->tid, o);
        json_close(w);
    }
    json_close(w);
}

static void put_summary(struct json_writer *w, const struct recording *rec)
{
    const struct piano__trace *t = &rec->header.trace;
    json_line(w);
    json_add_object(w, "cpu");
    report_put_source(w, rec);
    json_add_count(w, "samples", rec->cpu_samples);
    json_add_count(w, "cpu_ns", rec->total.cpu_ns);
    report_put_coverage(w, t);
    json_add_count(w, "switches", rec->off_samples);
    json_add_count(w, "unwound", t->samples_unwound);
    json_add_count(w, "threads_missed", t->threads_missed);
    json_add_count(w, "given_up", rec->header.samples_given_up);
    json_add_count(w, "lost", t->samples_lost);
    json_close(w);
}

int cpu_report_json(FILE *out, struct cpu *c, const struct cpu_options *h,
                    const struct report_options *o)
{
    struct json_writer w = {.out = out};
    json_add_object(&w, NULL);
    put_functions(&w, c, 0, 0, o);
    put_parts(&w, c, "processes", c->processes, c->process_count, c->process_count > 1, o);
    put_parts(&w, c, "threads", c->threads, c->thread_count, h->threads, o);
    put_summary(&w, c->rec);
    if (h->tree)
        report_put_tree(&w, c->profile, h->off ? FIGURE_OFF_CPU : FIGURE_CPU);
    report_put_missing(&w, c->rec);
    report_put_recording(&w, c->rec);
    return json_finish(&w);
}
