/* Samples are sorted by thread and time, so a thread is a range of them. Numbers of threads are
 * reused, so a range can have samples of several processes. */
#include "tool/export/timeline.h"

enum { LONGEST_S = 1 << 30 }; /* more is damage */
#define LONGEST_NS ((uint64_t)LONGEST_S * 1000000000)

uint64_t timeline_origin(const struct recording *rec)
{
    return rec->range.given ? rec->range.from_ns : rec->header.start_mono_ns;
}

void timeline_start(struct timeline *t, const struct recording *rec, const struct cpu_part *thread,
                    enum timeline_kind kind)
{
    *t = (struct timeline){
        .rec = rec, .pid = thread->pid, .kind = kind, .last_ns = timeline_origin(rec)};
    t->at = recording_samples_of(rec, thread->tid, 0, &t->end);
}

static enum timeline_kind kind_of(const struct recording_sample *s)
{
    if (s->kind == PIANO_SAMPLE_CPU)
        return TIMELINE_CPU;
    return s->flags & PIANO_SAMPLE_PREEMPTED ? TIMELINE_PREEMPTED : TIMELINE_BLOCKED;
}

bool timeline_next(struct timeline *t, struct timeline_span *span)
{
    while (t->at < t->end) {
        struct recording_sample s;
        const struct recording_sample *whole = &t->rec->samples[t->at++];
        if (whole->pid != t->pid || kind_of(whole) != t->kind ||
            !recording_clip(t->rec, whole, &s) || s.value == 0 || s.value > LONGEST_NS ||
            s.at_ns > LONGEST_NS)
            continue;
        uint64_t begin = s.at_ns;
        if (t->kind == TIMELINE_CPU)
            begin = s.at_ns > s.value ? s.at_ns - s.value : 0;
        if (begin < t->last_ns)
            begin = t->last_ns;
        t->last_ns = begin + s.value;
        *span = (struct timeline_span){begin, t->last_ns, s.stack};
        return true;
    }
    return false;
}
