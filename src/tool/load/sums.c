/* Second pass: reads the figures.
 *
 * Each worker sums a share of the indexed lines into its own tables, which are joined at the end.
 * Workers share only the frame records, each of which belongs to one line and so to one worker. A
 * line counts completely or not at all: its functions are parsed into a scratch table first. A line
 * found unreadable here is removed from the index. That may change which lines are frames, so the
 * caller then starts over. */
#include "tool/load/reader.h"

#include "tool/load/estimates.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORGET_BYTES = 16 << 20,
    UNKNOWN_PART = 20 /* largest part of a turn, 1/20, outside calls with known CPU time */
};

struct thread_cell {
    uint64_t key; /* thread << 32 | row; first: the cells are sorted by it */
    struct tally sum;
};

struct worker {
    struct reader *r;
    size_t from, to;   /* lines */
    size_t next_frame; /* record of the next frame line */
    size_t next_fold;
    struct tally *sums; /* per row */
    struct samples *samples;
    struct worst *worst;
    struct run_scratch scratch;
    struct thread_cell *cells;
    size_t cell_count;
    struct map known; /* from the key of a cell to its index */
    uint64_t dead;
    uint64_t dead_at;
    const char *dead_why;
    uint64_t saturated;
    int64_t main_self; /* self times on the main thread */
    bool estimated;
    int err;
};

static int cell_add(struct worker *w, uint32_t thread, uint32_t fn, const struct tally *sum)
{
    uint64_t key = (uint64_t)thread << 32 | fn;
    uint32_t at = map_find(&w->known, key);
    if (at == MAP_NONE) {
        at = (uint32_t)w->cell_count;
        if (VEC_DOUBLE(w->cells, w->cell_count) != 0 || map_put(&w->known, key, at) != 0)
            return -ENOMEM;
        w->cells[w->cell_count++] = (struct thread_cell){.key = key};
    }
    tally_add(&w->cells[at].sum, sum);
    return 0;
}

static uint32_t line_root(const struct reader *r, const struct line *l)
{
    return l->root == RUN_NO_FN ? RUN_NO_ROOT : r->fn_of_id[l->root];
}

/* Fills the record of the frame on line L. A folded frame gets its figures later. */
static int take_frame(struct worker *w, const struct line *l, const struct fns_head *head)
{
    struct run_frame *f = &w->r->run->frames[w->next_frame++];
    *f = (struct run_frame){.at = l->at,
                            .start_ns = l->start_ns,
                            .wall_ns = l->wall_ns,
                            .thread = l->thread,
                            .cpu_ns = head->cpu_ns,
                            .runq_ns = head->cpu_ns < 0 ? -1 : head->runq_ns,
                            .root = line_root(w->r, l) & RUN_NO_ROOT};
    if (l->role == ROLE_FOLDED_FRAME) {
        f->fold = (uint32_t)++w->next_fold;
        return 0;
    }
    int64_t self = 0;
    worst_see(w->worst, &w->scratch, l->at);
    for (size_t i = 0; i < w->scratch.count; i++) {
        const struct run_entry *e = &w->scratch.entries[i];
        f->alloc_count = saturating_add(f->alloc_count, e->sum.alloc_count);
        f->alloc_bytes = saturating_add(f->alloc_bytes, e->sum.alloc_bytes);
        self = saturating_add(self, e->sum.self_ns);
        if (e->sum.calls > 0 && samples_add(&w->samples[e->fn], e->sum.self_ns))
            return -ENOMEM;
    }
    if (f->wall_ns < 0) {
        f->wall_ns = self;
        w->estimated = true;
    }
    return 0;
}

static int read_line(struct worker *w, struct line *l)
{
    size_t left;
    const char *s = reader_text(w->r->run, l->at, &left);
    struct json j = {.at = s, .end = s + l->len};
    struct fns_head head;
    fns_clear(&w->scratch);
    int err = fns_line(&j, w->r->run, &w->scratch, &head);
    if (err == -ENOMEM)
        return err;
    if (err) {
        if (w->dead++ == 0) {
            w->dead_at = l->at + (uint64_t)(j.at - s);
            w->dead_why = j.problem;
        }
        w->next_frame += l->role == ROLE_FRAME || l->role == ROLE_FOLDED_FRAME;
        w->next_fold += l->role == ROLE_FOLDED_FRAME;
        l->kind = LINE_DEAD;
        return 0;
    }
    w->saturated += j.saturated;
    for (size_t i = 0; i < w->scratch.count; i++) {
        const struct run_entry *e = &w->scratch.entries[i];
        tally_add(&w->sums[e->fn], &e->sum);
        if (l->thread == w->r->main_thread)
            w->main_self = saturating_add(w->main_self, e->sum.self_ns);
        if (w->r->options.threads && cell_add(w, l->thread, e->fn, &e->sum))
            return -ENOMEM;
    }
    bool frame = l->role == ROLE_FRAME || l->role == ROLE_FOLDED_FRAME;
    return frame ? take_frame(w, l, &head) : 0;
}

static void work(void *ctx, size_t i)
{
    struct worker *w = (struct worker *)ctx + i;
    uint64_t forgotten = w->from < w->to ? w->r->lines[w->from].at : 0, at = forgotten;
    for (size_t k = w->from; k < w->to && w->err == 0; k++) {
        struct line *l = &w->r->lines[k];
        if (l->kind < LINE_FRAME || l->kind > LINE_PART)
            continue;
        w->err = read_line(w, l);
        at = l->at + l->len;
        if (at - forgotten > FORGET_BYTES) {
            reader_forget(w->r->run, forgotten, at);
            forgotten = at;
        }
    }
    reader_forget(w->r->run, forgotten, at);
}

static int worker_init(struct worker *w, struct reader *r)
{
    size_t n = r->run->fn_count + 1;
    w->r = r;
    w->sums = calloc(n, sizeof(*w->sums));
    w->samples = calloc(n, sizeof(*w->samples));
    w->worst = calloc(n, sizeof(*w->worst));
    if (!w->sums || !w->samples || !w->worst)
        return -ENOMEM;
    return fns_ready(&w->scratch, n);
}

static void worker_release(struct worker *w)
{
    for (size_t i = 0; w->samples && i <= w->r->run->fn_count; i++)
        samples_release(&w->samples[i]);
    free(w->samples);
    free(w->worst);
    free(w->sums);
    free(w->cells);
    map_release(&w->known);
    run_scratch_release(&w->scratch);
}

/* Splits the lines among the workers and gives each its first frame record. */
static void share_out(struct reader *r, struct worker *workers, size_t count)
{
    size_t frames = 0, folds = 0, next = 0;
    for (size_t i = 0; i < count; i++) {
        workers[i].from = next;
        workers[i].next_frame = frames;
        workers[i].next_fold = folds;
        size_t to = i + 1 == count ? r->line_count : r->line_count / count * (i + 1);
        for (; next < to; next++) {
            uint8_t role = r->lines[next].role;
            frames += role == ROLE_FRAME || role == ROLE_FOLDED_FRAME;
            folds += role == ROLE_FOLDED_FRAME;
        }
        workers[i].to = next;
    }
    r->run->frame_count = frames;
}

static int join_worker(struct reader *r, struct worker *w)
{
    struct run *run = r->run;
    for (size_t i = 0; i < run->fn_count; i++) {
        if (w->sums[i].seen)
            tally_add(&run->fns[i].sum, &w->sums[i]);
        if (samples_merge(&run->fns[i].frames, &w->samples[i]))
            return -ENOMEM;
    }
    worst_join(r->worst, w->worst, run->fn_count);
    r->saturated += w->saturated;
    run->wall_estimated |= w->estimated;
    return 0;
}

/* Joins the workers' cells into one array sorted by thread and row, without duplicates. */
static int join_cells(struct worker *workers, size_t count, struct thread_cell **out, size_t *len)
{
    size_t total = 0, n = 0, kept = 0;
    for (size_t i = 0; i < count; i++)
        total += workers[i].cell_count;
    struct thread_cell *all = calloc(total + 1, sizeof(*all));
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < workers[i].cell_count; k++)
            all[n++] = workers[i].cells[k];
    qsort(all, n, sizeof(*all), order_u64);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && all[kept - 1].key == all[i].key)
            tally_add(&all[kept - 1].sum, &all[i].sum);
        else
            all[kept++] = all[i];
    }
    *out = all;
    *len = kept;
    return 0;
}

/* Appends the threads that have figures but no thread line. Keeps the order. */
static int add_unnamed_threads(struct run *run, const struct thread_cell *cells, size_t count)
{
    size_t n = run->thread_count;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)(cells[i].key >> 32);
        bool again = i > 0 && (uint32_t)(cells[i - 1].key >> 32) == number;
        if (again || run_thread_find(run, number))
            continue;
        if (VEC_DOUBLE(run->threads, n) != 0)
            return -ENOMEM;
        run->threads[n++] = (struct run_thread){
            .number = number, .end_ns = -1, .parent_fn = RUN_NO_FN, .runq_ns = -1};
    }
    run->thread_count = n;
    threads_sort(run);
    return 0;
}

static int thread_sums(struct reader *r, struct worker *workers, size_t count)
{
    struct thread_cell *cells = NULL;
    size_t len = 0, at = 0;
    int err = join_cells(workers, count, &cells, &len);
    if (err == 0)
        err = add_unnamed_threads(r->run, cells, len);
    for (size_t t = 0; err == 0 && t < r->run->thread_count; t++) {
        struct run_thread *thread = &r->run->threads[t];
        size_t to = at;
        while (to < len && (uint32_t)(cells[to].key >> 32) == thread->number)
            to++;
        thread->fns = calloc(to - at + 1, sizeof(*thread->fns));
        if (!thread->fns)
            err = -ENOMEM;
        for (; err == 0 && at < to; at++)
            thread->fns[thread->fn_count++] =
                (struct run_thread_fn){(uint32_t)cells[at].key, cells[at].sum};
    }
    free(cells);
    return err;
}

/* Sets the times of turns. Frames and turns are both in the order of their lines here. */
static void finish_turns(struct run *run)
{
    for (size_t i = 0, t = 0; i < run->frame_count && t < run->turn_count; i++)
        if (run->frames[i].at == run->turns[t].at) {
            run->frames[i].wall_ns = run->turns[t].wall_ns;
            run->frames[i].turn = (uint32_t)++t;
        }
}

/* Time of a turn between calls, or in calls too short to be checked, counts as CPU time. If it is
 * more than 1/UNKNOWN_PART of the turn, the CPU time is unknown. */
static void set_turn_cpu(struct run_frame *f, const struct fns_head *calls)
{
    int64_t rest = f->wall_ns > calls->wall_ns ? f->wall_ns - calls->wall_ns : 0;
    bool known = calls->wall_ns > 0 && rest <= f->wall_ns / UNKNOWN_PART;
    f->cpu_ns = known ? saturating_add(calls->cpu_ns, rest) : -1;
    f->runq_ns = known ? calls->runq_ns : -1;
}

/* Computes frames that consist of several lines, now that all lines are known to be good. */
static int finish_folds(struct reader *r)
{
    struct run *run = r->run;
    struct run_scratch scratch = {0};
    int err = 0;
    for (size_t i = 0; i < run->frame_count && run->fold_count && err == 0; i++) {
        struct run_frame *f = &run->frames[i];
        if (!f->fold)
            continue;
        struct fns_head calls;
        err = fns_frame(run, f, &scratch, &calls);
        int64_t self = 0;
        if (err == 0 && f->turn)
            set_turn_cpu(f, &calls);
        if (err == 0)
            worst_see(r->worst, &scratch, f->at);
        for (size_t k = 0; k < scratch.count && err == 0; k++) {
            const struct run_entry *e = &scratch.entries[k];
            f->alloc_count = saturating_add(f->alloc_count, e->sum.alloc_count);
            f->alloc_bytes = saturating_add(f->alloc_bytes, e->sum.alloc_bytes);
            self = saturating_add(self, e->sum.self_ns);
            if (e->sum.calls > 0)
                err = samples_add(&run->fns[e->fn].frames, e->sum.self_ns);
        }
        if (f->wall_ns < 0) {
            f->wall_ns = self;
            run->wall_estimated = true;
        }
    }
    run_scratch_release(&scratch);
    return err;
}

static int settle_sums(struct run *run)
{
    struct run_scratch all = {.entries = calloc(run->fn_count + 1, sizeof(*all.entries))};
    if (!all.entries)
        return -ENOMEM;
    for (uint32_t i = 0; i < run->fn_count; i++)
        if (run->fns[i].sum.seen)
            all.entries[all.count++] = (struct run_entry){.fn = i, .sum = run->fns[i].sum};
    estimates_settle_run(&all);
    for (size_t i = 0; i < all.count; i++)
        run->fns[all.entries[i].fn].sum = all.entries[i].sum;
    run_scratch_release(&all);
    return 0;
}

/* One attempt. *DEAD counts the unreadable lines; if there are any, nothing was kept. */
static int attempt(struct reader *r, struct worker *workers, size_t count, uint64_t *dead)
{
    int err = levels_assign(r);
    for (size_t i = 0; i < count && err == 0; i++)
        err = worker_init(&workers[i], r);
    if (err)
        return err;
    share_out(r, workers, count);
    r->run->frames = calloc(r->run->frame_count + 1, sizeof(*r->run->frames));
    free(r->worst);
    r->worst = calloc(r->run->fn_count + 1, sizeof(*r->worst));
    if (!r->run->frames || !r->worst)
        return -ENOMEM;
    reader_parallel(count, work, workers);
    for (size_t i = 0; i < count; i++) {
        err = err ? err : workers[i].err;
        *dead += workers[i].dead;
        if (workers[i].dead)
            reader_bad(r, workers[i].dead_at, workers[i].dead_why);
        r->bad_count += workers[i].dead ? workers[i].dead - 1 : 0;
    }
    if (*dead > 0) {
        free(r->run->frames);
        r->run->frames = NULL;
        r->run->frame_count = 0;
        return err;
    }
    int64_t main_self = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        main_self = saturating_add(main_self, workers[i].main_self);
        err = join_worker(r, &workers[i]);
    }
    /* The lines miss what was sampled or still open, the self times what was taken off. */
    if (r->run->main_ns >= 0 && main_self > r->run->main_ns)
        r->run->main_ns = main_self;
    if (err == 0 && r->options.threads)
        err = thread_sums(r, workers, count);
    if (err == 0 && !r->run->uncorrected)
        err = settle_sums(r->run);
    finish_turns(r->run);
    return err ? err : finish_folds(r);
}

int sums_read(struct reader *r)
{
    size_t count = r->line_count / 4096 + 1;
    if (count > r->workers)
        count = r->workers;
    for (;;) {
        uint64_t dead = 0;
        struct worker *workers = calloc(count, sizeof(*workers));
        if (!workers)
            return -ENOMEM;
        int err = attempt(r, workers, count, &dead);
        for (size_t i = 0; i < count; i++)
            if (workers[i].r)
                worker_release(&workers[i]);
        free(workers);
        if (err || dead == 0)
            return err;
    }
}
