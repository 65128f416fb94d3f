/* CPU samples and times off the CPU, sorted by thread, then time. So an interval of a thread is one
 * range of the array. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    rec->cpu_samples += s.kind == PIANO_SAMPLE_CPU;
    rec->off_samples += s.kind == PIANO_SAMPLE_OFF;
    uint64_t end = s.at_ns + (s.kind == PIANO_SAMPLE_OFF ? s.value : 0);
    rec->end_ns = end > rec->end_ns ? end : rec->end_ns;
    return 0;
}

static void add_sums(struct recording *rec)
{
    for (size_t i = 0; i < rec->sample_count; i++) {
        const struct recording_sample *s = &rec->samples[i];
        bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
        struct recording_sum *const sums[] = {&rec->stacks[s->stack].sum, &rec->total};
        for (int k = 0; k < 2; k++) {
            sums[k]->cpu_samples += cpu;
            sums[k]->cpu_ns += cpu ? s->value : 0;
            sums[k]->cpu_squares += cpu ? (double)s->value * (double)s->value : 0;
            sums[k]->off_samples += !cpu && !preempted;
            sums[k]->off_ns += !cpu && !preempted ? s->value : 0;
            sums[k]->preempted_ns += !cpu && preempted ? s->value : 0;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const struct recording_sample *x = a, *y = b;
    return ORDER(x->tid, y->tid) ?: ORDER(x->at_ns, y->at_ns) ?: ORDER(x->kind, y->kind);
}

int rec_read_samples(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    int err = rec_each(r, PIANO_CHUNK_SAMPLES, sizeof(struct piano__sample),
                       "a sample that cannot be read: the rest of its chunk is left out",
                       take_sample, NULL);
    if (rec->sample_count)
        qsort(rec->samples, rec->sample_count, sizeof(*rec->samples), compare);
    add_sums(rec);
    return err == -E2BIG ? 0 : err;
}

/* Returns the first sample that is not before (TID, AT_NS). */
static size_t bound(const struct recording *rec, uint64_t tid, uint64_t at_ns)
{
    size_t low = 0, high = rec->sample_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct recording_sample *s = &rec->samples[mid];
        if (s->tid < tid || (s->tid == tid && s->at_ns < at_ns))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

size_t recording_samples_of(const struct recording *rec, uint32_t tid, uint64_t at_ns, size_t *end)
{
    *end = bound(rec, (uint64_t)tid + 1, 0);
    return bound(rec, tid, at_ns);
}
