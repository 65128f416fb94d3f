/* Last stage: sorts frames by time and finds the usual and the slow ones.
 *
 * Frames are compared only with frames of the same root function: a worker's 5 us jobs must not
 * make every 16 ms frame of the main loop a spike. A spike took more than twice the median of its
 * group, or longer than the budget if one was given. Merged frames have no line of their own; they
 * enter as counts per histogram bucket. Each stands for the middle of its bucket, which is off by
 * at most 1.6 %, or 6 % for functions in them. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist.h"
#include "common/merged.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

static int compare_frames(const void *a, const void *b)
{
    const struct run_frame *x = a, *y = b;
    return ORDER(x->start_ns, y->start_ns) ?: ORDER(x->at, y->at);
}

static void sort_frames(struct run *run)
{
    for (size_t i = 1; i < run->frame_count; i++)
        if (compare_frames(&run->frames[i - 1], &run->frames[i]) > 0) {
            qsort(run->frames, run->frame_count, sizeof(*run->frames), compare_frames);
            return;
        }
}

static uint64_t bucket_middle(unsigned bucket)
{
    uint64_t from = piano__hist_floor(bucket);
    uint64_t to = bucket + 1 < PIANO_HIST_BUCKETS ? piano__hist_floor(bucket + 1) : from + 1;
    uint64_t middle = from + (to - from) / 2;
    return middle < INT64_MAX ? middle : INT64_MAX;
}

/* ---- merged lines ---- */

typedef int take_bucket(void *ctx, int64_t bucket, int64_t count);

static int read_hist(struct json *j, take_bucket *take, void *ctx)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1) {
        int64_t bucket = 0, count = 0;
        if (json_expect(j, '[', "expected `[`") || json_count(j, &bucket) ||
            json_expect(j, ',', "expected `,`") || json_count(j, &count) ||
            json_expect(j, ']', "expected `]`"))
            return -EINVAL;
        more = take(ctx, bucket, count);
    }
    return more;
}

/* The two groups that merged frames count for: their kind, and all frames. */
struct both {
    struct run_group *kind, *all;
};

static int take_walls(void *ctx, int64_t bucket, int64_t count)
{
    struct both *g = ctx;
    if (bucket >= PIANO_HIST_BUCKETS)
        bucket = PIANO_HIST_BUCKETS - 1;
    g->kind->hist[bucket] += (uint64_t)count;
    g->all->hist[bucket] += (uint64_t)count;
    return 0;
}

static int hist_ready(struct run_group *g)
{
    if (!g->hist)
        g->hist = calloc(PIANO_HIST_BUCKETS, sizeof(*g->hist));
    return g->hist ? 0 : -ENOMEM;
}

static void count_merged(struct run_group *g, int64_t frames, int64_t wall, int64_t max)
{
    g->count = saturating_add(g->count, frames);
    g->merged = saturating_add(g->merged, frames);
    g->wall_sum = saturating_add(g->wall_sum, wall);
    g->wall_max = max > g->wall_max ? max : g->wall_max;
}

struct merged {
    int64_t max_ns, unlisted;
    struct run_group cpu; /* CPU time figures only */
};

static void add_cpu(struct run_group *g, const struct run_group *more)
{
    g->cpu_frames = saturating_add(g->cpu_frames, more->cpu_frames);
    g->cpu_wall_ns = saturating_add(g->cpu_wall_ns, more->cpu_wall_ns);
    g->cpu_ns = saturating_add(g->cpu_ns, more->cpu_ns);
    g->runq_ns = saturating_add(g->runq_ns, more->runq_ns > 0 ? more->runq_ns : 0);
    g->no_runq |= more->runq_ns < 0;
}

static int merged_key(struct json *j, struct json_text key, struct merged *m)
{
    return json_is(key, "wall_max_ns")   ? json_count(j, &m->max_ns)
           : json_is(key, "unlisted")    ? json_count(j, &m->unlisted)
           : json_is(key, "cpu_frames")  ? json_count(j, &m->cpu.cpu_frames)
           : json_is(key, "cpu_wall_ns") ? json_count(j, &m->cpu.cpu_wall_ns)
           : json_is(key, "cpu_ns")      ? json_count(j, &m->cpu.cpu_ns)
           : json_is(key, "runq_ns")     ? json_count(j, &m->cpu.runq_ns)
                                         : json_skip(j);
}

static int take_merged(struct reader *r, const struct line *l, struct run_group *g)
{
    size_t left;
    const char *s = reader_text(r->run, l->at, &left);
    struct json j = {.at = s, .end = s + l->len};
    struct run_group *all = &r->run->all;
    struct both both = {g, all};
    struct merged m = {.cpu.runq_ns = -1};
    bool first = true;
    struct json_text key;
    if (hist_ready(g) || hist_ready(all))
        return -ENOMEM;
    int err = json_expect(&j, '{', "expected `{`");
    while (err == 0 && (err = json_member(&j, &first, &key)) == 1) {
        if (json_is(key, "hist"))
            err = read_hist(&j, take_walls, &both);
        else
            err = merged_key(&j, key, &m);
    }
    if (err)
        reader_bad(r, l->at, j.problem);
    r->run->unlisted = saturating_add(r->run->unlisted, m.unlisted);
    int64_t wall = l->wall_ns < 0 ? 0 : l->wall_ns;
    count_merged(g, l->start_ns, wall, m.max_ns);
    count_merged(all, l->start_ns, wall, m.max_ns);
    if (m.cpu.cpu_frames > 0) {
        add_cpu(g, &m.cpu);
        add_cpu(all, &m.cpu);
    }
    return 0;
}

/* Bucket B of a function covers several buckets of hist.h. Each value stands for their middle. */
static int take_selves(void *ctx, int64_t bucket, int64_t count)
{
    if (bucket >= PIANO_MERGED_BUCKETS)
        bucket = PIANO_MERGED_BUCKETS - 1;
    uint64_t from = piano__hist_floor((unsigned)bucket * PIANO_MERGED_STEP);
    uint64_t to = piano__hist_floor((unsigned)(bucket + 1) * PIANO_MERGED_STEP);
    return samples_add_many(ctx, (int64_t)(from + (to - from) / 2), (uint64_t)count);
}

/* Self times of a function in merged frames. Only corrected times are stored. */
static int take_merged_fn(struct reader *r, const struct line *l)
{
    size_t left;
    const char *s = reader_text(r->run, l->at, &left);
    struct json j = {.at = s, .end = s + l->len};
    bool first = true;
    struct json_text key;
    if (l->start_ns < 0 || (uint64_t)l->start_ns >= r->id_count) {
        reader_bad(r, l->at, "expected the id of a function in the table");
        return 0;
    }
    struct samples *samples = &r->run->fns[r->fn_of_id[l->start_ns]].frames;
    int err = json_expect(&j, '{', "expected `{`");
    while (err == 0 && (err = json_member(&j, &first, &key)) == 1)
        err = json_is(key, "hist") ? read_hist(&j, take_selves, samples) : json_skip(&j);
    r->run->merged_selves = true;
    if (err == -ENOMEM)
        return err;
    if (err)
        reader_bad(r, l->at, j.problem);
    return 0;
}

/* ---- percentiles ---- */

static void swap(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Moves the value of rank K to V[K]. Quickselect with the middle as pivot; sorts ranges that are
 * small or do not shrink. */
static int64_t select_rank(int64_t *v, size_t n, size_t k)
{
    size_t from = 0, to = n;
    for (int rounds = 0; to - from > 64 && rounds < 64; rounds++) {
        int64_t pivot = v[from + (to - from) / 2];
        size_t less = from, i = from, more = to;
        while (i < more) {
            if (v[i] < pivot)
                swap(&v[less++], &v[i++]);
            else if (v[i] > pivot)
                swap(&v[i], &v[--more]);
            else
                i++;
        }
        if (k < less)
            to = less;
        else if (k >= more)
            from = more;
        else
            return pivot;
    }
    qsort(v + from, to - from, sizeof(*v), order_i64);
    return v[k];
}

/* Returns the value of rank RANK among the sorted V and the histogram together. */
static int64_t mixed_rank(const int64_t *v, size_t n, const uint64_t *hist, uint64_t rank)
{
    size_t i = 0;
    uint64_t seen = 0;
    for (unsigned b = 0; b < PIANO_HIST_BUCKETS; b++) {
        if (!hist[b])
            continue;
        int64_t value = (int64_t)bucket_middle(b);
        for (; i < n && v[i] < value; i++)
            if (seen++ == rank)
                return v[i];
        seen += hist[b];
        if (seen > rank)
            return value;
    }
    uint64_t rest = rank - seen;
    return n == 0 ? 0 : i + rest < n ? v[i + rest] : v[n - 1];
}

static uint64_t hist_total(const uint64_t *hist)
{
    uint64_t total = 0;
    for (unsigned b = 0; hist && b < PIANO_HIST_BUCKETS; b++)
        total += hist[b];
    return total;
}

/* Computes percentiles of a group from the walls of its frames. Reorders V. */
static void group_percentiles(struct run_group *g, int64_t *v, size_t n)
{
    uint64_t total = n + hist_total(g->hist);
    if (total == 0)
        return;
    uint64_t p50 = (uint64_t)(0.50 * (double)(total - 1) + 0.5);
    uint64_t p99 = (uint64_t)(0.99 * (double)(total - 1) + 0.5);
    if (g->hist) {
        qsort(v, n, sizeof(*v), order_i64);
        g->p50_ns = mixed_rank(v, n, g->hist, p50);
        g->p99_ns = mixed_rank(v, n, g->hist, p99);
    } else {
        g->p50_ns = select_rank(v, n, p50);
        g->p99_ns = select_rank(v, n, p99);
    }
}

/* ---- groups ---- */

/* Slot of a kind of frame in a table by row and kind. The last two are for frames without a
 * root. */
static size_t kind_slot(const struct run *run, uint32_t root, bool turn)
{
    return (root == RUN_NO_ROOT ? run->fn_count : root) * 2 + turn;
}

static size_t slot_of(const struct run *run, const struct run_frame *f)
{
    return kind_slot(run, f->root, f->turn != 0);
}

static int compare_groups(const void *a, const void *b)
{
    const struct run_group *x = a, *y = b;
    return ORDER(y->wall_sum, x->wall_sum) ?: ORDER(x->root, y->root) ?: x->turn - y->turn;
}

static struct run_group *group_get(struct run *run, uint32_t *group_of, uint32_t root, bool turn)
{
    uint32_t *slot = &group_of[kind_slot(run, root, turn)];
    if (!*slot) {
        size_t n = run->group_count;
        if (VEC_DOUBLE(run->groups, n) != 0)
            return NULL;
        run->groups[n] = (struct run_group){.root = root, .turn = turn, .caller = RUN_NO_FN};
        *slot = (uint32_t)++run->group_count;
    }
    return &run->groups[*slot - 1];
}

static int count_groups(struct reader *r, uint32_t *group_of)
{
    struct run *run = r->run;
    for (size_t i = 0; i < run->frame_count; i++) {
        const struct run_frame *f = &run->frames[i];
        struct run_group *g = group_get(run, group_of, f->root, f->turn != 0);
        if (!g)
            return -ENOMEM;
        if (f->turn) {
            const struct run_turn *turn = &run->turns[f->turn - 1];
            g->caller = turn->caller;
            g->between_sum = saturating_add(g->between_sum, turn->between_ns);
        }
        g->count++;
        g->wall_sum = saturating_add(g->wall_sum, f->wall_ns);
        g->wall_max = f->wall_ns > g->wall_max ? f->wall_ns : g->wall_max;
        run->all.wall_sum = saturating_add(run->all.wall_sum, f->wall_ns);
        run->all.wall_max = f->wall_ns > run->all.wall_max ? f->wall_ns : run->all.wall_max;
        if (f->cpu_ns < 0)
            continue;
        const struct run_group one = {
            .cpu_frames = 1, .cpu_wall_ns = f->wall_ns, .cpu_ns = f->cpu_ns, .runq_ns = f->runq_ns};
        add_cpu(g, &one);
        add_cpu(&run->all, &one);
    }
    run->all.count = (int64_t)run->frame_count;
    for (size_t i = 0; i < r->line_count; i++) {
        const struct line *l = &r->lines[i];
        if (l->role == ROLE_MERGED && l->kind == LINE_MERGED_FN && !run->uncorrected &&
            take_merged_fn(r, l))
            return -ENOMEM;
        if (l->role != ROLE_MERGED || l->kind != LINE_MERGED)
            continue;
        uint32_t root = l->root == RUN_NO_FN ? RUN_NO_ROOT : r->fn_of_id[l->root];
        struct run_group *g = group_get(run, group_of, root, false);
        if (!g || take_merged(r, l, g))
            return -ENOMEM;
    }
    return 0;
}

/* Collects the walls of the frames by group. Group g ends at ENDS[g]. */
static void group_walls(const struct run *run, const uint32_t *group_of, int64_t *walls,
                        size_t *ends)
{
    for (size_t i = 0; i < run->frame_count; i++)
        ends[group_of[slot_of(run, &run->frames[i])] - 1]++;
    for (size_t g = 0, at = 0; g < run->group_count; g++) {
        size_t count = ends[g];
        ends[g] = at; /* start of the group; filling moves it to the end */
        at += count;
    }
    for (size_t i = 0; i < run->frame_count; i++)
        walls[ends[group_of[slot_of(run, &run->frames[i])] - 1]++] = run->frames[i].wall_ns;
}

/* Returns the wall time above which a frame is a spike. */
static int64_t spike_limit(const struct run *run, const struct run_group *g)
{
    return run->budget_ns > 0 ? run->budget_ns : saturating_add(g->p50_ns, g->p50_ns);
}

int64_t run_frame_blocked(const struct run_frame *f)
{
    if (f->cpu_ns < 0 || f->runq_ns < 0)
        return -1;
    int64_t off = f->wall_ns > f->cpu_ns ? f->wall_ns - f->cpu_ns : 0;
    return off > f->runq_ns ? off - f->runq_ns : 0;
}

/* Checks the wait for a CPU first: a frame that waited for a CPU may also sleep longer than
 * intended. */
static enum run_why why_slow(const struct run_frame *f, int64_t allowed)
{
    int64_t half = (f->wall_ns - allowed) / 2;
    if (f->cpu_ns < 0 || f->wall_ns - f->cpu_ns <= half)
        return RUN_WHY_WORK;
    if (f->runq_ns < 0)
        return RUN_WHY_OFF;
    if (f->runq_ns > half)
        return RUN_WHY_RUNQ;
    return run_frame_blocked(f) > half ? RUN_WHY_BLOCKED : RUN_WHY_OFF;
}

static void mark_spikes(struct run *run, const uint32_t *group_of)
{
    for (size_t i = 0; i < run->frame_count; i++) {
        struct run_frame *f = &run->frames[i];
        struct run_group *g = &run->groups[group_of[slot_of(run, f)] - 1];
        f->spike = f->wall_ns > spike_limit(run, g);
        g->spikes += f->spike;
        bool tight = run->budget_ns > 0 && run->budget_ns < g->p50_ns;
        int64_t allowed = tight ? run->budget_ns : g->p50_ns;
        f->why = f->spike ? why_slow(f, allowed) : RUN_WHY_WORK;
        g->spikes_runq += f->why == RUN_WHY_RUNQ;
        run->all.spikes_runq += f->why == RUN_WHY_RUNQ;
    }
    for (size_t g = 0; g < run->group_count; g++) {
        struct run_group *group = &run->groups[g];
        int64_t limit = spike_limit(run, group);
        for (unsigned b = 0; group->hist && b < PIANO_HIST_BUCKETS; b++)
            if ((int64_t)bucket_middle(b) > limit)
                group->spikes = saturating_add(group->spikes, (int64_t)group->hist[b]);
        run->all.spikes = saturating_add(run->all.spikes, group->spikes);
    }
}

int finish_frames(struct reader *r)
{
    struct run *run = r->run;
    uint32_t *group_of = calloc(kind_slot(run, RUN_NO_ROOT, true) + 1, sizeof(*group_of));
    int64_t *walls = calloc(run->frame_count + 1, sizeof(*walls));
    size_t *ends = NULL;
    int err = group_of && walls ? 0 : -ENOMEM;
    sort_frames(run);
    for (size_t i = 0; i < run->fn_count; i++)
        run->fns[i].listed = run->fns[i].frames.count;
    if (err == 0)
        err = worst_settle(run, r->worst);
    if (err == 0)
        err = count_groups(r, group_of);
    if (err == 0) {
        ends = calloc(run->group_count + 2, sizeof(*ends));
        err = ends ? 0 : -ENOMEM;
    }
    if (err == 0) {
        group_walls(run, group_of, walls, ends);
        for (size_t g = 0, from = 0; g < run->group_count; from = ends[g++])
            group_percentiles(&run->groups[g], walls + from, ends[g] - from);
        mark_spikes(run, group_of);
        group_percentiles(&run->all, walls, run->frame_count);
        if (run->group_count)
            qsort(run->groups, run->group_count, sizeof(*run->groups), compare_groups);
    }
    free(group_of);
    free(walls);
    free(ends);
    return err;
}
