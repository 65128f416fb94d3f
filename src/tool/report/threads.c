/* `piano report --threads`: the work of each thread, including those that exited.
 *
 * For each thread it shows the function that called pthread_create, and the thread that function
 * ran on. Large pools are folded: threads that differ only in the number at the end of their
 * names and were started by the same function are shown as one, with a count. */
#include "tool/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"

enum { FOLD_ABOVE = 20, THREAD_TOP = 8 };

/* One block of output: a thread, or several similar ones. */
struct block {
    const struct run_thread *first;
    size_t threads;
    int64_t self_ns;
    char *name; /* name of the fold; NULL: the name of the thread */
    struct report_row *rows;
    size_t row_count, row_cap;
};

static int64_t self_of(const struct run_thread *t)
{
    int64_t self = 0;
    for (size_t i = 0; i < t->fn_count; i++)
        self = saturating_add(self, t->fns[i].sum.self_ns);
    return self;
}

/* "worker-12" -> "worker-*" */
static char *fold_name(const struct run_thread *t)
{
    const char *name = t->name ? t->name : "";
    size_t len = strlen(name), keep = len;
    while (keep > 0 && name[keep - 1] >= '0' && name[keep - 1] <= '9')
        keep--;
    struct buf b = {0};
    buf_put(&b, name, keep);
    buf_puts(&b, keep < len ? "*" : "");
    return b.failed ? NULL : b.data;
}

/* Adds the functions of T; `block_settle` adds up the entries of one function. */
static int block_add(struct block *b, const struct run_thread *t)
{
    if (!b->first)
        b->first = t;
    b->threads++;
    b->self_ns = saturating_add(b->self_ns, self_of(t));
    if (t->fn_count == 0)
        return 0;
    if (vec_reserve(&b->rows, &b->row_cap, b->row_count + t->fn_count, sizeof(*b->rows)) != 0)
        return -ENOMEM;
    for (size_t i = 0; i < t->fn_count; i++)
        b->rows[b->row_count++] = (struct report_row){t->fns[i].fn, t->fns[i].sum};
    return 0;
}

static void block_settle(struct block *b)
{
    size_t kept = 0;
    if (b->row_count)
        qsort(b->rows, b->row_count, sizeof(*b->rows), order_u32);
    for (size_t i = 0; i < b->row_count; i++) {
        if (kept > 0 && b->rows[kept - 1].fn == b->rows[i].fn)
            tally_add(&b->rows[kept - 1].sum, &b->rows[i].sum);
        else
            b->rows[kept++] = b->rows[i];
    }
    b->row_count = kept;
}

/* A thread and its folded name. */
struct folded {
    char *name;
    const struct run_thread *thread;
};

static int compare_folded(const void *a, const void *b)
{
    const struct folded *x = a, *y = b;
    return strcmp(x->name, y->name) ?: ORDER(x->thread->parent_fn, y->thread->parent_fn)
        ?: ORDER(x->thread, y->thread);
}

static bool alike(const struct folded *x, const struct folded *y)
{
    return strcmp(x->name, y->name) == 0 && x->thread->parent_fn == y->thread->parent_fn;
}

static int fold_threads(const struct run *run, struct folded *all, struct block *blocks,
                        size_t *count)
{
    int err = 0;
    for (size_t i = 0; i < run->thread_count; i++) {
        all[i] = (struct folded){fold_name(&run->threads[i]), &run->threads[i]};
        if (!all[i].name)
            return -ENOMEM;
    }
    qsort(all, run->thread_count, sizeof(*all), compare_folded);
    for (size_t i = 0; i < run->thread_count && err == 0; i++) {
        if (i == 0 || !alike(&all[i - 1], &all[i])) {
            blocks[(*count)++] = (struct block){.name = strdup(all[i].name)};
            err = blocks[*count - 1].name ? 0 : -ENOMEM;
        }
        if (err == 0)
            err = block_add(&blocks[*count - 1], all[i].thread);
    }
    return err;
}

static int make_blocks(const struct run *run, bool fold, struct block *blocks, size_t *count)
{
    int err = 0;
    if (fold) {
        struct folded *all = calloc(run->thread_count, sizeof(*all));
        err = all ? fold_threads(run, all, blocks, count) : -ENOMEM;
        for (size_t i = 0; all && i < run->thread_count; i++)
            free(all[i].name);
        free(all);
    } else {
        for (size_t i = 0; i < run->thread_count && err == 0; i++)
            err = block_add(&blocks[(*count)++], &run->threads[i]);
    }
    for (size_t i = 0; i < *count && err == 0; i++)
        block_settle(&blocks[i]);
    return err;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return ORDER(y->self_ns, x->self_ns) ?: ORDER(x->first->number, y->first->number);
}

static void print_parent(FILE *out, const struct run *run, const struct run_thread *t)
{
    char safe[64];
    const struct run_thread *parent = run_thread_find(run, t->parent_thread);
    if (t->parent_fn != RUN_NO_FN) {
        char *name = run_fn_name(run, t->parent_fn);
        fprintf(out, " | started by %s", name ? name : "?");
        free(name);
    } else if (t->parent_thread) {
        fputs(" | started", out);
    }
    if (t->parent_thread && parent && parent->name && *parent->name)
        fprintf(out, " in %s", say_safe(safe, sizeof(safe), parent->name));
    else if (t->parent_thread)
        fprintf(out, " in thread %u", t->parent_thread);
}

static void print_heading(FILE *out, const struct run *run, const struct block *b, bool colour)
{
    char name[128], text[UNITS_LEN];
    const struct run_thread *t = b->first;
    const char *raw = b->name ? b->name : t->name ? t->name : "";
    say_safe(name, sizeof(name), raw);
    fputs(colour ? "\x1b[1m" : "", out);
    if (b->threads > 1)
        fprintf(out, "%s (%zu threads", *name ? name : "unnamed", b->threads);
    else if (t->number == 0)
        fprintf(out, "all threads (the run does not distinguish them");
    else
        fprintf(out, "%s (thread %u", *name ? name : "unnamed", t->number);
    fprintf(out, ")%s | %s self", colour ? "\x1b[0m" : "", report_time(text, b->self_ns));
    if (b->threads == 1 && t->end_ns >= 0)
        fprintf(out, " | lived %s", units_time(text, saturating_add(t->end_ns, -t->start_ns)));
    print_parent(out, run, t);
    fputc('\n', out);
}

static int print_block(FILE *out, const struct run *run, struct block *b,
                       const struct report_options *o)
{
    struct report_options inner = *o;
    if (!o->all && !o->top)
        inner.top = THREAD_TOP;
    print_heading(out, run, b, o->colour);
    if (b->row_count == 0) {
        fputs("no instrumented function was called here\n", out);
        return 0;
    }
    size_t hidden = !o->all && b->row_count > inner.top ? b->row_count - inner.top : 0;
    int err = report_rows(out, run, b->rows, b->row_count, false, &inner);
    if (err == 0 && hidden && !o->top)
        report_dim(out, o->colour, "%zu more function%s: --all", hidden, hidden == 1 ? "" : "s");
    return err;
}

/* A run without thread data (v1) is one block with all its functions. */
static int no_threads(FILE *out, const struct run *run, const struct report_options *o)
{
    fputs("This run does not distinguish threads.\n\n", out);
    return report_functions(out, run, o);
}

int report_threads(FILE *out, const struct run *run, const struct report_options *o)
{
    size_t count = 0;
    bool fold = !o->all && run->thread_count > FOLD_ABOVE;
    if (run->thread_count == 0)
        return no_threads(out, run, o);
    struct block *blocks = calloc(run->thread_count + 1, sizeof(*blocks));
    int err = blocks ? make_blocks(run, fold, blocks, &count) : -ENOMEM;
    if (err == 0)
        qsort(blocks, count, sizeof(*blocks), compare_blocks);
    for (size_t i = 0; i < count && err == 0; i++) {
        if (i)
            fputc('\n', out);
        err = print_block(out, run, &blocks[i], o);
    }
    if (err == 0 && fold && count < run->thread_count)
        report_dim(out, o->colour, "\nsimilar threads are shown together; --all shows each");
    for (size_t i = 0; blocks && i < count; i++) {
        free(blocks[i].name);
        free(blocks[i].rows);
    }
    free(blocks);
    return err;
}

/* ---- JSON ---- */

static void put_thread(struct json_writer *w, const struct run *run, const struct run_thread *t)
{
    bool started = t->parent_fn != RUN_NO_FN;
    json_add_row(w);
    json_add_count(w, "thread", t->number);
    json_add_known(w, "tid", t->tid > 0, t->tid);
    json_add_text(w, "name", t->name);
    json_add_known(w, "start_ns", t->number != 0, t->start_ns);
    json_add_known(w, "end_ns", t->end_ns >= 0, t->end_ns);
    json_add_known(w, "parent_thread", t->parent_thread > 0, t->parent_thread);
    json_add_text(w, "parent_fn", started ? run->fns[t->parent_fn].name : NULL);
    json_add_number(w, "self_ns", self_of(t));
    json_add_array(w, "functions");
    for (size_t i = 0; i < t->fn_count; i++) {
        json_add_object(w, NULL);
        report_put_function(w, run, t->fns[i].fn, &t->fns[i].sum);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

int report_threads_json(FILE *out, const struct run *run, const struct report_options *o)
{
    struct json_writer w = {.out = out};
    (void)o;
    json_add_object(&w, NULL);
    json_add_array(&w, "threads");
    for (size_t i = 0; i < run->thread_count && w.err == 0; i++)
        put_thread(&w, run, &run->threads[i]);
    json_line(&w);
    json_close(&w);
    report_put_run(&w, run);
    return json_finish(&w);
}
