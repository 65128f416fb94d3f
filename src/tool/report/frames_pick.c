/* Chooses the frames to show: the worst by wall or CPU time relative to the median of their
 * kind, or by absolute time if there is a budget. */
#include "tool/report/frames.h"
#include "tool/util/order.h"

#include <errno.h>
#include <stdlib.h>

/* Index of a kind of frames in a table of medians; the last two are for frames without a root. */
static size_t kind_slot(const struct run *run, uint32_t root, bool turn)
{
    return (root == RUN_NO_ROOT ? run->fn_count : root) * 2 + turn;
}

/* The reference time for each kind of frame: the budget, or the median of the kind. */
static int64_t *medians(const struct run *run)
{
    int64_t *m = calloc(kind_slot(run, RUN_NO_ROOT, true) + 1, sizeof(*m));
    for (size_t i = 0; m && i < run->group_count; i++)
        m[kind_slot(run, run->groups[i].root, run->groups[i].turn)] =
            run->budget_ns > 0 ? run->budget_ns : run->groups[i].p50_ns;
    return m;
}

struct ranked {
    double badness;
    size_t frame;
};

/* Keeps the COUNT worst in a heap; its root is the least bad of them. */
static void heap_offer(struct ranked *heap, size_t *len, size_t count, struct ranked r)
{
    if (*len == count && r.badness <= heap[0].badness)
        return;
    size_t at;
    if (*len < count) {
        at = (*len)++;
        for (; at > 0 && heap[(at - 1) / 2].badness > r.badness; at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = r;
        return;
    }
    for (at = 0;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < *len && heap[child + 1].badness < heap[child].badness)
            child++;
        if (child >= *len || heap[child].badness >= r.badness)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = r;
}

static int compare_index(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return ORDER(x, y);
}

/* Puts the WORST frames by wall or CPU time relative to the median of their kind into HEAP, and
 * their number into *LEN. */
static int rank_frames(const struct run *run, size_t worst, enum report_rank rank,
                       struct ranked *heap, size_t *len)
{
    int64_t *median = medians(run);
    if (!median)
        return -ENOMEM;
    for (size_t i = 0; i < run->frame_count; i++) {
        const struct run_frame *f = &run->frames[i];
        int64_t usual = median[kind_slot(run, f->root, f->turn != 0)];
        int64_t took = rank == REPORT_BY_CPU && f->cpu_ns >= 0 ? f->cpu_ns : f->wall_ns;
        double badness = (double)took / (usual > 0 ? (double)usual : 1.0);
        heap_offer(heap, len, worst, (struct ranked){badness, i});
    }
    free(median);
    return 0;
}

/* The worst frames and their neighbours, in order, without duplicates. */
static size_t with_neighbours(const struct run *run, const struct ranked *heap, size_t len,
                              size_t *list)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < len; i++) {
        size_t at = heap[i].frame;
        if (at > 0)
            list[n++] = at - 1;
        list[n++] = at;
        if (at + 1 < run->frame_count)
            list[n++] = at + 1;
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_index);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || list[kept - 1] != list[i])
            list[kept++] = list[i];
    return kept;
}

static int compare_badness(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return ORDER(y->badness, x->badness) ?: ORDER(x->frame, y->frame);
}

int frames_worst(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                 size_t *count)
{
    if (worst > run->frame_count)
        worst = run->frame_count;
    *count = 0;
    struct ranked *heap = calloc(worst + 1, sizeof(*heap));
    *out = calloc(worst + 1, sizeof(**out));
    int err = heap && *out ? rank_frames(run, worst, rank, heap, count) : -ENOMEM;
    if (err == 0 && *count)
        qsort(heap, *count, sizeof(*heap), compare_badness);
    for (size_t i = 0; err == 0 && i < *count; i++)
        (*out)[i] = heap[i].frame;
    free(heap);
    return err;
}

int frames_choose(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                  size_t *count)
{
    size_t len = 0;
    if (worst > run->frame_count)
        worst = run->frame_count;
    struct ranked *heap = calloc(worst + 1, sizeof(*heap));
    size_t *list = calloc(worst * 3 + 1, sizeof(*list));
    int err = heap && list ? rank_frames(run, worst, rank, heap, &len) : -ENOMEM;
    if (err == 0)
        *count = with_neighbours(run, heap, len, list);
    free(heap);
    if (err)
        free(list);
    else
        *out = list;
    return err;
}
