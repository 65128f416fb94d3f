/* The rows of a run: each function is a stack of its own, because a run does not know who called
 * it, with its calls, its self time and its own allocations. */
#include "tool/export/series.h"

#include <errno.h>
#include <stdlib.h>

static void add_types(struct series *t, const struct run *run, enum figure figure)
{
    bool allocations = run->dropped[RUN_DROP_ALLOCATORS] == 0;
    series_add_type(t, "calls", "count");
    series_add_type(t, "wall", "nanoseconds");
    if (allocations) {
        series_add_type(t, "alloc_objects", "count");
        series_add_type(t, "alloc_space", "bytes");
    }
    t->chosen = figure == FIGURE_ALLOCATED && allocations ? SERIES_RUN_BYTES : SERIES_RUN_SELF;
    t->period_type = (struct series_type){"calls", "count"}; /* each one counts */
    t->period = 1;
    t->start_real_ns = run->timestamp_ms > 0 && run->timestamp_ms < INT64_MAX / 1000000
                           ? (uint64_t)run->timestamp_ms * 1000000
                           : 0;
    t->duration_ns = run->wall_ns > 0 && t->chosen == SERIES_RUN_SELF ? (uint64_t)run->wall_ns : 0;
}

/* The functions as addresses, numbered as in the run. */
static int add_functions(struct series *t, const struct run *run)
{
    size_t count = run->fn_count + 1;
    t->own_pcs = calloc(count, sizeof(*t->own_pcs));
    t->own_frames = calloc(count, sizeof(*t->own_frames));
    t->own_numbers = calloc(count, sizeof(*t->own_numbers));
    if (!t->own_pcs || !t->own_frames || !t->own_numbers)
        return -ENOMEM;
    for (size_t i = 0; i < run->fn_count; i++) {
        const struct run_fn *f = &run->fns[i];
        unsigned line = f->line > 0 && f->line <= INT32_MAX ? (unsigned)f->line : 0;
        t->own_frames[i] =
            (struct symbol_frame){.function = f->name, .file = f->file, .line = line, .module = ""};
        t->own_pcs[i] = (struct profile_pc){.frames = &t->own_frames[i], .count = 1};
        t->own_numbers[i] = (uint32_t)i;
    }
    t->pcs = t->own_pcs;
    t->pc_count = run->fn_count;
    return 0;
}

static int add_row(struct series *t, const struct run *run, uint32_t fn,
                   const struct run_thread *thread, const struct tally *sum)
{
    bool known = thread && thread->tid > 0 && thread->tid <= UINT32_MAX;
    struct series_row row = {.pcs = &t->own_numbers[fn],
                             .depth = 1,
                             .pid = run->pid > 0 && run->pid <= UINT32_MAX ? (uint32_t)run->pid : 0,
                             .tid = known ? (uint32_t)thread->tid : 0,
                             .thread = thread ? thread->name : NULL};
    row.values[SERIES_RUN_CALLS] = (double)sum->calls;
    row.values[SERIES_RUN_SELF] = sum->self_ns > 0 ? (double)sum->self_ns : 0;
    if (t->type_count > SERIES_RUN_OBJECTS) {
        row.values[SERIES_RUN_OBJECTS] = (double)sum->alloc_count;
        row.values[SERIES_RUN_BYTES] = (double)sum->alloc_bytes;
    }
    return series_add_row(t, &row) ? 0 : -ENOMEM;
}

/* Sums of the threads by function, to compare with those of the run. NULL: out of memory. */
static struct tally *thread_sums(const struct run *run)
{
    struct tally *sums = calloc(run->fn_count + 1, sizeof(*sums));
    for (size_t i = 0; sums && i < run->thread_count; i++)
        for (size_t k = 0; k < run->threads[i].fn_count; k++)
            tally_add(&sums[run->threads[i].fns[k].fn], &run->threads[i].fns[k].sum);
    return sums;
}

static bool is_same(const struct tally *a, const struct tally *b)
{
    return a->calls == b->calls && a->self_ns == b->self_ns && a->alloc_count == b->alloc_count &&
           a->alloc_bytes == b->alloc_bytes;
}

/* A function whose threads do not add up to its sum has one row without a thread. */
int series_add_run(struct series *t, const struct run *run, enum figure figure)
{
    add_types(t, run, figure);
    struct tally *sums = thread_sums(run);
    int err = sums ? add_functions(t, run) : -ENOMEM;
    for (uint32_t i = 0; i < run->fn_count && err == 0; i++)
        if (!run->fns[i].alias && !is_same(&sums[i], &run->fns[i].sum))
            err = add_row(t, run, i, NULL, &run->fns[i].sum);
    for (size_t i = 0; i < run->thread_count && err == 0; i++)
        for (size_t k = 0; k < run->threads[i].fn_count && err == 0; k++) {
            const struct run_thread_fn *f = &run->threads[i].fns[k];
            if (is_same(&sums[f->fn], &run->fns[f->fn].sum))
                err = add_row(t, run, f->fn, &run->threads[i], &f->sum);
        }
    free(sums);
    return err;
}
