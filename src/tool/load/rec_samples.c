/* CPU samples and times off the CPU, sorted by thread, then time. So an interval of a thread is one
 * range of the array, and the order of all by time is a merge of these ranges.
 *
 * A file has the samples of a thread in order of time, except where a thread moved to another CPU.
 * So they are grouped by thread, and only a thread that is out of order is sorted. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

static int take_sample(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                       uint64_t at)
{
    (void)ctx;
    struct recording *rec = r->rec;
    struct piano__sample s;
    memcpy(&s, record, sizeof(s));
    if (s.kind != PIANO_SAMPLE_CPU && s.kind != PIANO_SAMPLE_OFF)
        return 0;
    if (rec->header.ended_ns > 0 && s.at_ns > rec->header.ended_ns)
        return 0;
    if (rec->sample_count == REC_MAX_SAMPLES) {
        rec_gap(rec, at, at + bytes, "more samples than can be read");
        return -E2BIG;
    }
    if (VEC_DOUBLE(rec->samples, rec->sample_count) != 0)
        return -ENOMEM;
    uint64_t longest = rec_longest_ns(rec);
    bool reasonable = s.value <= longest && s.at_ns < (uint64_t)1 << 62;
    if (!reasonable && rec->bad_numbers++ == 0)
        rec->bad_number_at = at;
    if (!reasonable)
        return 0;
    uint32_t stack = rec_stack_of(r, s.stack);
    rec->orphans += s.stack != 0 && stack == 0;
    rec->samples[rec->sample_count++] = (struct recording_sample){.at_ns = s.at_ns,
                                                                  .value = s.value,
                                                                  .tid = s.tid,
                                                                  .pid = s.pid,
                                                                  .stack = stack,
                                                                  .kind = s.kind,
                                                                  .flags = s.flags,
                                                                  .cpu = s.cpu};
    rec->has_cpu |= s.kind == PIANO_SAMPLE_CPU;
    rec->has_off |= s.kind == PIANO_SAMPLE_OFF;
    uint64_t end = s.at_ns + (s.kind == PIANO_SAMPLE_OFF ? s.value : 0);
    rec->end_ns = end > rec->end_ns ? end : rec->end_ns;
    if (rec->seen)
        return rec_seen_add(rec->seen, s.stack, &rec->samples[rec->sample_count - 1]);
    return 0;
}

bool recording_clip(const struct recording *rec, const struct recording_sample *s,
                    struct recording_sample *part)
{
    *part = *s;
    if (!rec->range.given || s->kind == PIANO_SAMPLE_CPU || s->value == 0)
        return range_has(&rec->range, s->at_ns);
    uint64_t to = s->at_ns + s->value;
    bool is_in = range_clip(&rec->range, &part->at_ns, &to);
    part->value = is_in ? to - part->at_ns : 0;
    return is_in;
}

/* What a sample adds to the sums: nothing if it is outside of the range. */
static struct recording_sum sum_of(const struct recording *rec,
                                   const struct recording_sample *whole)
{
    struct recording_sample s;
    if (!recording_clip(rec, whole, &s))
        return (struct recording_sum){0};
    bool cpu = s.kind == PIANO_SAMPLE_CPU, preempted = s.flags & PIANO_SAMPLE_PREEMPTED;
    return (struct recording_sum){.cpu_samples = cpu,
                                  .cpu_ns = cpu ? s.value : 0,
                                  .cpu_squares = cpu ? (double)s.value * (double)s.value : 0,
                                  .off_samples = !cpu && !preempted,
                                  .off_ns = !cpu && !preempted ? s.value : 0,
                                  .preempted_ns = !cpu && preempted ? s.value : 0};
}

void rec_sum_samples(struct recording *rec)
{
    for (size_t i = 0; i < rec->sample_count; i++) {
        struct recording_sample part;
        if (!recording_clip(rec, &rec->samples[i], &part))
            continue;
        const struct recording_sum sum = sum_of(rec, &rec->samples[i]);
        rec->cpu_samples += part.kind == PIANO_SAMPLE_CPU;
        rec->off_samples += part.kind != PIANO_SAMPLE_CPU;
        recording_sum_add(&rec->stacks[part.stack].sum, &sum);
        recording_sum_add(&rec->total, &sum);
    }
}

void recording_move_sample(struct recording *rec, size_t sample, uint32_t stack)
{
    struct recording_sample *s = &rec->samples[sample];
    const struct recording_sum sum = sum_of(rec, s);
    struct recording_sum *from = &rec->stacks[s->stack].sum;
    from->cpu_samples -= sum.cpu_samples;
    from->cpu_ns -= sum.cpu_ns;
    from->cpu_squares -= sum.cpu_squares;
    from->off_samples -= sum.off_samples;
    from->off_ns -= sum.off_ns;
    from->preempted_ns -= sum.preempted_ns;
    recording_sum_add(&rec->stacks[stack].sum, &sum);
    s->stack = stack;
}

static int compare(const void *a, const void *b)
{
    const struct recording_sample *x = a, *y = b;
    return ORDER(x->tid, y->tid) ?: ORDER(x->at_ns, y->at_ns) ?: ORDER(x->kind, y->kind);
}

struct group {
    uint32_t tid;
    size_t count, at; /* AT: place of its next sample */
};

struct groups {
    struct group *list;
    size_t count, cap;
    struct map of; /* by tid */
};

/* The group of TID, new if there is none; NULL: out of memory. */
static struct group *group_of(struct groups *g, uint32_t tid)
{
    uint32_t found = map_find(&g->of, tid);
    if (found != MAP_NONE)
        return &g->list[found];
    if (VEC_ROOM(g->list, g->count, g->cap) != 0 || map_put(&g->of, tid, (uint32_t)g->count) != 0)
        return NULL;
    g->list[g->count] = (struct group){.tid = tid};
    return &g->list[g->count++];
}

/* Counts the samples of each thread. 0 or -ENOMEM. */
static int count_groups(struct groups *g, const struct recording *rec)
{
    struct group *last = NULL;
    for (size_t i = 0; i < rec->sample_count; i++) {
        if (!last || last->tid != rec->samples[i].tid)
            last = group_of(g, rec->samples[i].tid);
        if (!last)
            return -ENOMEM;
        last->count++;
    }
    return 0;
}

/* Gives each thread its range of the sorted array. */
static int place_groups(struct groups *g)
{
    size_t at = 0;
    qsort(g->list, g->count, sizeof(*g->list), order_u32);
    map_release(&g->of);
    for (uint32_t i = 0; i < g->count; i++) {
        g->list[i].at = at;
        at += g->list[i].count;
        if (map_put(&g->of, g->list[i].tid, i) != 0)
            return -ENOMEM;
    }
    return 0;
}

static void sort_group(struct recording_sample *list, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare(&list[i - 1], &list[i]) > 0) {
            qsort(list, count, sizeof(*list), compare);
            return;
        }
}

int rec_sort_samples(struct recording *rec)
{
    struct groups g = {.list = NULL};
    struct recording_sample *sorted = calloc(rec->sample_count + 1, sizeof(*sorted));
    int err = sorted ? count_groups(&g, rec) : -ENOMEM;
    err = err ? err : place_groups(&g);
    struct group *last = g.list;
    for (size_t i = 0; err == 0 && i < rec->sample_count; i++) {
        if (last->tid != rec->samples[i].tid)
            last = &g.list[map_find(&g.of, rec->samples[i].tid)];
        sorted[last->at++] = rec->samples[i];
    }
    for (size_t i = 0; err == 0 && i < g.count; i++)
        sort_group(&sorted[g.list[i].at - g.list[i].count], g.list[i].count);
    map_release(&g.of);
    free(g.list);
    free(err ? sorted : rec->samples);
    rec->samples = err ? rec->samples : sorted;
    return err;
}

int rec_read_samples(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    int err = rec_each(r, PIANO_CHUNK_SAMPLES, sizeof(struct piano__sample),
                       "a sample that cannot be read: the rest of its chunk is left out",
                       take_sample, NULL);
    if (err && err != -E2BIG)
        return err;
    return rec->sample_count ? rec_sort_samples(rec) : 0;
}

/* Returns the first sample that is not before (TID, AT_NS). */
static size_t bound(const struct recording *rec, uint64_t tid, uint64_t at_ns)
{
    return ORDER_BOUND(at, rec->sample_count,
                       rec->samples[at].tid < tid ||
                           (rec->samples[at].tid == tid && rec->samples[at].at_ns < at_ns));
}

size_t recording_samples_of(const struct recording *rec, uint32_t tid, uint64_t at_ns, size_t *end)
{
    *end = bound(rec, (uint64_t)tid + 1, 0);
    return bound(rec, tid, at_ns);
}

/* ---- in order of time ---- */

/* The samples of a thread that are not merged yet. */
struct run_of_thread {
    uint64_t at_ns; /* of the first */
    uint32_t first, end;
};

static bool is_before(const struct run_of_thread *a, const struct run_of_thread *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->first < b->first;
}

static void sink(struct run_of_thread *heap, size_t count, size_t at)
{
    struct run_of_thread r = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &r))
            break;
        heap[at] = heap[child];
    }
    heap[at] = r;
}

/* The ranges of all threads. Returns how many, or -ENOMEM. */
static int64_t find_ranges(const struct recording *rec, struct run_of_thread **ranges)
{
    size_t count = 0, cap = 0;
    for (uint32_t i = 0; i < rec->sample_count; i++) {
        const struct recording_sample *s = &rec->samples[i];
        if (i == 0 || s->tid != s[-1].tid) {
            if (VEC_ROOM(*ranges, count, cap) != 0)
                return -ENOMEM;
            (*ranges)[count++] = (struct run_of_thread){.at_ns = s->at_ns, .first = i};
        }
        (*ranges)[count - 1].end = i + 1;
    }
    return (int64_t)count;
}

uint32_t *recording_samples_by_time(const struct recording *rec)
{
    struct run_of_thread *heap = NULL;
    uint32_t *order = calloc(rec->sample_count + 1, sizeof(*order));
    int64_t found = order ? find_ranges(rec, &heap) : -ENOMEM;
    size_t count = found < 0 ? 0 : (size_t)found, n = 0;
    for (size_t i = count / 2; i-- > 0;)
        sink(heap, count, i);
    while (count > 0) {
        order[n++] = heap[0].first++;
        if (heap[0].first < heap[0].end)
            heap[0].at_ns = rec->samples[heap[0].first].at_ns;
        else
            heap[0] = heap[--count];
        if (count > 1)
            sink(heap, count, 0);
    }
    free(heap);
    if (found < 0) {
        free(order);
        order = NULL;
    }
    return order;
}
