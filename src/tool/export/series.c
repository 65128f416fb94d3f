/* The rows of a recording. Memory has one row for each stack, because its sums are not known by
 * thread. CPU samples and waits have one for each stack, thread and task. */
#include "tool/export/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/sample_tasks.h"
#include "tool/util/vec.h"

void series_add_type(struct series *t, const char *name, const char *unit)
{
    t->types[t->type_count++] = (struct series_type){name, unit};
}

struct series_row *series_add_row(struct series *t, const struct series_row *row)
{
    if (VEC_ROOM(t->rows, t->row_count, t->row_cap) != 0)
        return NULL;
    t->rows[t->row_count] = *row;
    return &t->rows[t->row_count++];
}

/* ---- memory ---- */

static void add_heap_types(struct series *t, bool peak)
{
    series_add_type(t, "alloc_objects", "count");
    series_add_type(t, "alloc_space", "bytes");
    series_add_type(t, "inuse_objects", "count");
    series_add_type(t, "inuse_space", "bytes");
    if (peak) {
        series_add_type(t, "peak_objects", "count");
        series_add_type(t, "peak_space", "bytes");
    }
}

static void choose_heap(struct series *t, const struct recording *rec, enum figure figure)
{
    t->chosen = figure == FIGURE_PEAK ? 5 : figure == FIGURE_ALLOCATED ? 1 : 3;
    t->period_type = (struct series_type){"space", "bytes"};
    t->period = rec->header.rate ? rec->header.rate : 1;
}

/* The first TYPES values of a row are those of its memory. */
static int add_heap(struct series *t, const struct profile *p, size_t types)
{
    for (uint32_t i = 0; i < p->rec.stack_count; i++) {
        const struct recording_sum *s = &p->rec.stacks[i].sum;
        if (!p->stacks[i].pcs || !profile_has_site(p, i))
            continue;
        const struct series_row row = {.pcs = p->stacks[i].pcs,
                                       .depth = p->stacks[i].depth,
                                       .pid = p->rec.header.pid,
                                       .values = {s->allocated_objects, s->allocated_bytes,
                                                  s->live_objects, s->live_bytes, s->peak_objects,
                                                  s->peak_bytes}};
        struct series_row *added = series_add_row(t, &row);
        if (!added)
            return -ENOMEM;
        memset(added->values + types, 0, (SERIES_MOST - types) * sizeof(*added->values));
    }
    return 0;
}

/* ---- CPU samples and waits ---- */

enum { CPU_SAMPLES, CPU_NS, CPU_SWITCHES, CPU_OFF, CPU_WAIT, CPU_PREEMPTED };

static void add_cpu_types(struct series *t, const struct recording *rec)
{
    series_add_type(t, "samples", "count");
    series_add_type(t, "cpu", "nanoseconds");
    if (!rec->has_off)
        return;
    series_add_type(t, "switches", "count");
    series_add_type(t, "off_cpu", "nanoseconds");
    series_add_type(t, "wait", "nanoseconds");
    series_add_type(t, "preempted", "nanoseconds");
}

static void choose_cpu(struct series *t, const struct recording *rec, size_t first,
                       enum figure figure)
{
    uint64_t hz = rec->header.trace.cpu_hz;
    uint64_t mean = rec->cpu_samples ? rec->total.cpu_ns / rec->cpu_samples : 0;
    t->chosen = first + (figure == FIGURE_OFF_CPU && rec->has_off ? CPU_OFF : CPU_NS);
    t->period_type = (struct series_type){"cpu", "nanoseconds"};
    t->period = hz && hz <= 1000000000 ? 1000000000 / hz : mean ? mean : 1;
    t->duration_ns = rec->duration_ns > 0 ? (uint64_t)rec->duration_ns : 0;
    if (rec->range.given)
        t->duration_ns = rec->range.to_ns - rec->range.from_ns;
}

/* The row of sample S; NULL: out of memory. */
static struct series_row *row_of(struct series *t, const struct profile *p,
                                 const struct recording_sample *s, uint32_t task)
{
    const uint32_t id[] = {s->stack, s->pid, s->tid, task};
    const struct profile_stack *stack = &p->stacks[s->stack];
    uint64_t key = map_hash(id, sizeof(id));
    uint32_t at;
    for (; (at = map_find(&t->row_of, key)) != MAP_NONE; key++) {
        const struct series_row *r = &t->rows[at];
        if (r->pcs == stack->pcs && r->pid == s->pid && r->tid == s->tid && r->task_number == task)
            return &t->rows[at];
    }
    const struct recording_thread *thread = recording_thread_of(&p->rec, s->tid);
    const struct series_row row = {.pcs = stack->pcs,
                                   .depth = stack->depth,
                                   .pid = s->pid,
                                   .tid = s->tid,
                                   .task_number = task,
                                   .thread = thread && thread->name[0] ? thread->name : NULL};
    if (map_put(&t->row_of, key, (uint32_t)t->row_count) != 0)
        return NULL;
    return series_add_row(t, &row);
}

static void add_sample(struct series_row *row, size_t first, bool has_off,
                       const struct recording_sample *s)
{
    double *v = row->values + first, ns = (double)s->value;
    if (s->kind == PIANO_SAMPLE_CPU) {
        v[CPU_SAMPLES]++;
        v[CPU_NS] += ns;
    } else if (has_off) {
        bool preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
        v[CPU_SWITCHES] += !preempted;
        v[preempted ? CPU_PREEMPTED : CPU_OFF] += ns;
        v[CPU_WAIT] += ns;
    }
}

static int add_cpu(struct series *t, const struct export_source *s, size_t first)
{
    const struct profile *p = s->profile;
    uint32_t *tasks = NULL;
    int err = s->polls ? sample_tasks(s->polls, &tasks) : 0;
    for (size_t i = 0; i < p->rec.sample_count && err == 0; i++) {
        struct recording_sample part;
        if (!recording_clip(&p->rec, &p->rec.samples[i], &part) || !p->stacks[part.stack].pcs)
            continue;
        uint32_t task = tasks ? tasks[i] : 0;
        struct series_row *row = row_of(t, p, &part, task);
        if (!row) {
            err = -ENOMEM;
            break;
        }
        if (task)
            row->task = s->polls->groups[task - 1].name;
        add_sample(row, first, p->rec.has_off, &part);
    }
    free(tasks);
    return err;
}

/* ---- all ---- */

static int add_recording(struct series *t, const struct export_source *s, bool peak)
{
    const struct profile *p = s->profile;
    size_t first = 0;
    int err = 0;
    t->pcs = p->pcs;
    t->pc_count = p->pc_count;
    t->start_real_ns = p->rec.header.start_real_ns;
    if (s->heap) {
        add_heap_types(t, peak || s->figure == FIGURE_PEAK);
        first = t->type_count;
    }
    if (s->cpu)
        add_cpu_types(t, &p->rec);
    if (s->heap)
        err = add_heap(t, p, first);
    if (err == 0 && s->cpu)
        err = add_cpu(t, s, first);
    if (s->figure < FIGURES_OF_HEAP)
        choose_heap(t, &p->rec, s->figure);
    else
        choose_cpu(t, &p->rec, first, s->figure);
    return err;
}

int series_make(struct series *t, const struct export_source *s, bool peak)
{
    *t = (struct series){.period = 1};
    return s->profile ? add_recording(t, s, peak) : series_add_run(t, s->run, s->figure);
}

void series_release(struct series *t)
{
    map_release(&t->row_of);
    free(t->rows);
    free(t->own_pcs);
    free(t->own_frames);
    free(t->own_numbers);
    *t = (struct series){.period = 1};
}

size_t series_frames(const struct series *t, const struct series_row *row,
                     const struct symbol_frame **frames)
{
    size_t count = 0;
    for (uint32_t i = 0; i < row->depth; i++) {
        const struct profile_pc *pc = &t->pcs[row->pcs[i]];
        for (uint32_t k = 0; k < pc->count; k++)
            frames[count++] = &pc->frames[k];
    }
    if (count == 0)
        frames[count++] = &profile_no_stack;
    return count;
}
