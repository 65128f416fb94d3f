/* Sums samples and polls by process. The process that did most comes first: a shell or a wrapper that
 * only started the program comes last. */
#include "tool/profile/processes.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { IDLE_BYTES = 1 << 20 };

struct maker {
    struct processes *to;
    const struct recording *rec;
    size_t cap;
    struct map of; /* by pid */
};

/* The row of PID, new if there is none; NULL: out of memory. */
static struct process_row *row_of(struct maker *m, uint32_t pid)
{
    struct processes *to = m->to;
    uint32_t found = map_find(&m->of, pid);
    if (found != MAP_NONE)
        return &to->list[found];
    if (VEC_ROOM(to->list, to->count, m->cap) != 0 ||
        map_put(&m->of, pid, (uint32_t)to->count) != 0)
        return NULL;
    const struct recording_process *file = recording_process_of(m->rec, pid);
    const struct recording_thread *t = recording_thread_of(m->rec, pid);
    const char *name = file && *file->name ? file->name : t && t->name[0] ? t->name : NULL;
    to->list[to->count] = (struct process_row){.pid = pid, .name = name, .file = file};
    return &to->list[to->count++];
}

static int add_files(struct maker *m)
{
    for (size_t i = 0; i < m->rec->process_count; i++)
        if (!row_of(m, m->rec->processes[i].pid))
            return -ENOMEM;
    return 0;
}

static int add_samples(struct maker *m)
{
    for (size_t i = 0; i < m->rec->sample_count; i++) {
        struct recording_sample s;
        if (!recording_clip(m->rec, &m->rec->samples[i], &s))
            continue;
        struct process_row *row = row_of(m, s.pid);
        if (!row)
            return -ENOMEM;
        bool is_cpu = s.kind == PIANO_SAMPLE_CPU;
        bool is_preempted = !is_cpu && s.flags & PIANO_SAMPLE_PREEMPTED;
        row->cpu_ns += is_cpu ? s.value : 0;
        row->cpu_samples += is_cpu;
        row->off_ns += !is_cpu && !is_preempted ? s.value : 0;
        row->preempted_ns += is_preempted ? s.value : 0;
    }
    return 0;
}

static int add_polls(struct maker *m, const struct polls *p)
{
    for (uint32_t i = 0; i < m->rec->events.track_count; i++) {
        const struct recording_process *process = recording_track_process(m->rec, i);
        struct process_row *row = row_of(m, process ? process->pid : m->rec->header.pid);
        if (!row)
            return -ENOMEM;
        const struct polls_track *t = &p->tracks[i];
        row->polls += t->polls;
        row->busy_ns += t->busy_ns;
        row->longest_ns = t->longest_ns > row->longest_ns ? t->longest_ns : row->longest_ns;
    }
    return 0;
}

static double allocated(const struct process_row *row)
{
    return row->file ? row->file->allocated_bytes : 0;
}

static int compare(const void *a, const void *b)
{
    const struct process_row *x = a, *y = b;
    return ORDER(y->cpu_ns, x->cpu_ns) ?: ORDER(y->busy_ns, x->busy_ns)
        ?: ORDER(allocated(y), allocated(x)) ?: ORDER(y->polls, x->polls) ?: ORDER(x->pid, y->pid);
}

static bool is_idle(const struct process_row *row)
{
    return row->cpu_samples == 0 && row->polls == 0 && allocated(row) < IDLE_BYTES;
}

int processes_make(struct processes *list, const struct profile *profile, const struct polls *p)
{
    struct maker m = {.to = list, .rec = &profile->rec};
    *list = (struct processes){.has_cpu = profile->rec.has_cpu, .has_off = profile->rec.has_off};
    int err = add_files(&m) ?: add_samples(&m);
    if (err == 0 && p)
        err = add_polls(&m, p);
    map_release(&m.of);
    if (list->count)
        qsort(list->list, list->count, sizeof(*list->list), compare);
    while (list->idle < list->count && is_idle(&list->list[list->count - 1 - list->idle]))
        list->idle++;
    list->idle -= list->idle == list->count && list->count > 0; /* one is always shown */
    if (err)
        processes_release(list);
    return err;
}

void processes_release(struct processes *list)
{
    free(list->list);
    *list = (struct processes){.list = NULL};
}

bool processes_are_several(const struct recording *rec)
{
    bool are = rec->process_count > 1;
    for (size_t i = 1; i < rec->sample_count && !are; i++)
        are = rec->samples[i].pid != rec->samples[0].pid;
    return are;
}
