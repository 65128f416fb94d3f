/* The processes of a recording of several: which they are, and which one did most. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/family.h"
#include "tool/load/own.h"
#include "tool/util/order.h"
#include "tool/util/program.h"
#include "tool/util/vec.h"

static bool has_heap(const struct recording *rec)
{
    return rec->header.flags & PIANO_REC_HAS_HEAP && !own_is_hidden(&rec->header);
}

/* FROM is a chosen process; its duration is known. */
int rec_add_process(struct recording *rec, const struct recording *from)
{
    if (VEC_DOUBLE(rec->processes, rec->process_count) != 0)
        return -ENOMEM;
    const struct piano__rec_header *h = &from->header;
    char called[PIANO_REC_PATH];
    char *name = strdup(program_called(called, sizeof(called), h->program, h->command));
    char *program = strdup(h->program);
    if (!name || !program) {
        free(name);
        free(program);
        return -ENOMEM;
    }
    rec->processes[rec->process_count++] =
        (struct recording_process){.pid = h->pid,
                                   .parent = h->parent,
                                   .name = name,
                                   .program = program,
                                   .start_ns = h->start_mono_ns,
                                   .end_ns = from->end_ns,
                                   .duration_ns = from->duration_ns,
                                   .duration_atleast = from->duration_atleast,
                                   .end = from->end,
                                   .status = from->status,
                                   .kernel_ns = h->process_cpu_ns,
                                   .has_heap = has_heap(from),
                                   .has_events = h->flags & PIANO_REC_HAS_EVENTS,
                                   .live_bytes = h->live_bytes,
                                   .allocated_bytes = h->allocated_bytes,
                                   .peak_bytes = h->peak_bytes,
                                   .events = h->trace.events};
    rec->heap_processes += has_heap(from);
    return 0;
}

static int compare_work(const struct recording_process *x, const struct recording_process *y)
{
    return ORDER(x->sampled_ns, y->sampled_ns) ?: ORDER(x->allocated_bytes, y->allocated_bytes)
        ?: ORDER(x->events, y->events);
}

int rec_find_leader(struct recording *rec)
{
    struct map of = {.slots = NULL}; /* by pid */
    int err = 0;
    for (uint32_t i = 0; i < rec->process_count && err == 0; i++)
        if (map_find(&of, rec->processes[i].pid) == MAP_NONE)
            err = map_put(&of, rec->processes[i].pid, i);
    for (size_t i = 0; i < rec->sample_count && err == 0; i++) {
        const struct recording_sample *s = &rec->samples[i];
        uint32_t at = s->kind == PIANO_SAMPLE_CPU ? map_find(&of, s->pid) : MAP_NONE;
        if (at != MAP_NONE)
            rec->processes[at].sampled_ns += s->value;
    }
    for (size_t i = 1; i < rec->process_count; i++)
        if (compare_work(&rec->processes[i], &rec->processes[rec->leader]) > 0)
            rec->leader = i;
    map_release(&of);
    return err;
}

void rec_free_parts(struct recording *rec)
{
    for (size_t i = 0; i < rec->part_count; i++) {
        struct recording_part *part = &rec->parts[i];
        for (size_t k = 0; k < part->copy_count; k++)
            free(part->copies[k]);
        free(part->copies);
        free(part->stacks);
        recording_unload(&part->rec);
    }
    for (size_t i = 0; i < rec->process_count; i++) {
        free(rec->processes[i].name);
        free(rec->processes[i].program);
    }
    free(rec->parts);
    free(rec->processes);
    if (rec->family)
        family_release(rec->family);
    free(rec->family);
}

const struct recording_process *recording_leader(const struct recording *rec)
{
    return rec->process_count > 1 ? &rec->processes[rec->leader] : NULL;
}

bool recording_is_one_heap(const struct recording *rec)
{
    return rec->heap_processes <= 1;
}

const struct recording_process *recording_process_of(const struct recording *rec, uint32_t pid)
{
    for (size_t i = 0; i < rec->process_count; i++)
        if (rec->processes[i].pid == pid)
            return &rec->processes[i];
    return NULL;
}

const struct recording_process *recording_track_process(const struct recording *rec, uint32_t track)
{
    uint32_t part = rec->events.tracks[track].part;
    const struct recording *of = part ? &rec->parts[part - 1].rec : rec;
    return rec->process_count ? recording_process_of(rec, of->header.pid) : NULL;
}

uint64_t recording_own_id(const struct recording *rec, uint64_t id)
{
    uint64_t part = id >> REC_ID_SHIFT;
    return part > 0 && part <= rec->part_count ? id - (part << REC_ID_SHIFT) : id;
}
