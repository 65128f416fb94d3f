/* Joins the recordings of several processes to one.
 *
 * Each further file is a part, numbered from 1. Its modules, stacks, samples, threads and names are
 * appended to those of the recording. Numbers that are unique in a file get the part in their upper
 * bits (generations of modules, tasks), or are increased (names, code objects). Thread ids are
 * unique among all processes. A process that is not chosen adds only the samples of processes that
 * are: the file of the program may have samples of all. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "tool/load/family.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum { MOST_STACKS = 1 << 24, MOST_SAMPLES = 1 << 26, PART_SHIFT = 32 };

/* ---- addresses ---- */

static int join_modules(struct recording *rec, struct recording *from, uint64_t part)
{
    for (size_t i = 0; i < from->module_count; i++) {
        if (VEC_DOUBLE(rec->modules, rec->module_count) != 0)
            return -ENOMEM;
        struct recording_module *m = &rec->modules[rec->module_count++];
        *m = from->modules[i];
        m->since |= part << PART_SHIFT;
        m->until |= part << PART_SHIFT;
        from->modules[i].path = NULL; /* it has a new owner */
    }
    return 0;
}

/* Gives the functions of S their numbers in the joined recording. */
static int renumber(struct recording_part *part, struct recording_stack *s, uint32_t codes)
{
    uint32_t python = 0;
    for (uint32_t i = 0; i < s->depth; i++)
        python += piano__python_is(s->pcs[i]);
    if (python == 0 || codes == 0)
        return 0;
    uint64_t *copy = malloc(s->depth * sizeof(*copy));
    if (!copy || VEC_DOUBLE(part->copies, part->copy_count) != 0) {
        free(copy);
        return -ENOMEM;
    }
    part->copies[part->copy_count++] = copy;
    for (uint32_t i = 0; i < s->depth; i++) {
        uint64_t pc = s->pcs[i];
        uint32_t code = piano__python_is(pc) ? piano__python_code_of(pc) : 0;
        bool fits = code > 0 && code + codes < PIANO_PYTHON_MOST;
        copy[i] = piano__python_is(pc)
                      ? piano__python_pc(fits ? code + codes : 0, piano__python_instruction_of(pc))
                      : pc;
    }
    s->pcs = copy;
    return 0;
}

static uint32_t last_code(const struct recording *rec)
{
    return rec->code_count ? rec->codes[rec->code_count - 1].id : 0;
}

/* Marks the stacks of samples of chosen processes in `stacks` of PART. */
static void mark_stacks(struct recording_part *part, const struct family *f)
{
    const struct recording *from = &part->rec;
    for (size_t i = 0; i < from->sample_count; i++)
        if (family_has(f, from->samples[i].pid))
            part->stacks[from->samples[i].stack] = 1;
}

static int join_stacks(struct recording *rec, struct recording_part *part, uint64_t number)
{
    const struct recording *from = &part->rec;
    const uint32_t codes = last_code(rec);
    part->stacks = calloc(from->stack_count + 1, sizeof(*part->stacks));
    if (!part->stacks)
        return -ENOMEM;
    mark_stacks(part, rec->family);
    for (size_t i = 1; i < from->stack_count; i++) {
        bool is_needed = part->is_chosen || part->stacks[i];
        part->stacks[i] = 0;
        if (!is_needed || rec->stack_count >= MOST_STACKS)
            continue;
        if (VEC_DOUBLE(rec->stacks, rec->stack_count) != 0)
            return -ENOMEM;
        struct recording_stack *s = &rec->stacks[rec->stack_count];
        *s = from->stacks[i];
        s->generation |= number << PART_SHIFT;
        if (!part->is_chosen)
            s->sum = (struct recording_sum){.samples = 0};
        if (renumber(part, s, codes) != 0)
            return -ENOMEM;
        part->stacks[i] = (uint32_t)rec->stack_count++;
    }
    part->stacks[0] = 0;
    if (part->is_chosen)
        recording_sum_add(&rec->stacks[0].sum, &from->stacks[0].sum);
    return 0;
}

static int join_codes(struct recording *rec, const struct recording *from)
{
    const uint32_t base = last_code(rec);
    for (size_t i = 0; i < from->code_count; i++) {
        if (from->codes[i].id + base >= PIANO_PYTHON_MOST)
            break;
        if (VEC_DOUBLE(rec->codes, rec->code_count) != 0)
            return -ENOMEM;
        rec->codes[rec->code_count] = from->codes[i];
        rec->codes[rec->code_count++].id += base;
    }
    return 0;
}

static int compare_texts(const void *a, const void *b)
{
    char *const *const *x = a, *const *const *y = b;
    return strcmp(**x, **y);
}

/* Makes equal texts of codes the same pointer: functions are compared by it. */
static int share_codes(struct recording *rec)
{
    char ***all = calloc(2 * rec->code_count + 1, sizeof(*all));
    size_t count = 0;
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < rec->code_count; i++) {
        all[count++] = &rec->codes[i].name;
        all[count++] = &rec->codes[i].file;
    }
    if (count)
        qsort(all, count, sizeof(*all), compare_texts);
    for (size_t i = 1; i < count; i++)
        if (strcmp(*all[i - 1], *all[i]) == 0)
            *all[i] = *all[i - 1];
    free(all);
    return 0;
}

/* ---- samples, threads and names ---- */

static int join_samples(struct recording *rec, const struct recording_part *part)
{
    for (size_t i = 0; i < part->rec.sample_count && rec->sample_count < MOST_SAMPLES; i++) {
        if (!family_has(rec->family, part->rec.samples[i].pid))
            continue;
        if (VEC_DOUBLE(rec->samples, rec->sample_count) != 0)
            return -ENOMEM;
        struct recording_sample *s = &rec->samples[rec->sample_count++];
        *s = part->rec.samples[i];
        s->stack = part->stacks[s->stack];
    }
    return 0;
}

/* Reading the samples of one file sorts them into an array of just their size. */
static int make_room(struct recording *rec)
{
    struct recording_sample *old = rec->samples;
    size_t count = rec->sample_count;
    rec->samples = NULL;
    rec->sample_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!family_has(rec->family, old[i].pid))
            continue;
        if (VEC_DOUBLE(rec->samples, rec->sample_count) != 0) {
            free(old);
            return -ENOMEM;
        }
        rec->samples[rec->sample_count++] = old[i];
    }
    free(old);
    return 0;
}

static int join_threads(struct recording *rec, const struct recording_part *part)
{
    for (size_t i = 0; i < part->rec.thread_count; i++) {
        const struct recording_thread *t = &part->rec.threads[i];
        if (t->pid ? !family_has(rec->family, t->pid) : !part->is_chosen)
            continue;
        if (VEC_DOUBLE(rec->threads, rec->thread_count) != 0)
            return -ENOMEM;
        rec->threads[rec->thread_count++] = *t;
    }
    return 0;
}

static int join_names(struct recording *rec, struct recording_part *part)
{
    struct recording *from = &part->rec;
    part->names = rec->name_count ? rec->names[rec->name_count - 1].id : 0;
    for (size_t i = 0; i < from->name_count; i++) {
        uint64_t id = from->names[i].id + part->names;
        if (id > UINT32_MAX)
            break;
        if (VEC_DOUBLE(rec->names, rec->name_count) != 0)
            return -ENOMEM;
        rec->names[rec->name_count++] = (struct recording_name){(uint32_t)id, from->names[i].text};
        from->names[i].text = NULL; /* it has a new owner */
    }
    return 0;
}

/* ---- the rest ---- */

static void add_faults(struct recording *rec, const struct recording *from)
{
    rec->unknown_chunks += from->unknown_chunks;
    rec->unfinished_chunks += from->unfinished_chunks;
    rec->partial_snapshots += from->partial_snapshots;
    rec->merged_stacks += from->merged_stacks;
    rec->bad_numbers += from->bad_numbers;
    rec->orphans += from->orphans;
    rec->read_chunks += from->read_chunks;
    for (size_t i = 0; i < from->gap_count && i < RECORDING_GAPS; i++)
        rec_gap(rec, from->gaps[i].from, from->gaps[i].to, from->gaps[i].what);
    rec->foreign |= from->foreign;
}

static int join_chosen(struct recording *rec, struct recording_part *part, uint32_t number)
{
    struct recording *from = &part->rec;
    int err = join_names(rec, part) ?: rec_add_events(rec, part, number);
    if (err == 0)
        err = rec_add_process(rec, from);
    recording_sum_add(&rec->total, &from->total);
    rec_add_header(&rec->header, &from->header);
    rec->rate_low = from->rate_low < rec->rate_low ? from->rate_low : rec->rate_low;
    rec->rate_high = from->rate_high > rec->rate_high ? from->rate_high : rec->rate_high;
    add_faults(rec, from);
    return err;
}

static int join_part(struct recording *rec, struct recording_part *part, uint32_t number)
{
    struct recording *from = &part->rec;
    int err = join_modules(rec, from, number) ?: join_stacks(rec, part, number);
    err = err ?: join_codes(rec, from) ?: join_samples(rec, part) ?: join_threads(rec, part);
    err = err ?: rec_add_symbols(rec, from);
    if (err == 0 && part->is_chosen)
        err = join_chosen(rec, part, number);
    else if (rec->header.trace.cpu_source == PIANO_CPU_NONE) {
        rec->header.trace.cpu_source = from->header.trace.cpu_source;
        rec->header.trace.cpu_hz = from->header.trace.cpu_hz;
    }
    return err;
}

/* A process without a file has the name of its first thread. */
static int choose_by_threads(struct family *f, const struct recording *rec)
{
    int err = 0;
    for (size_t i = 0; f->process && i < rec->thread_count && err == 0; i++) {
        const struct recording_thread *t = &rec->threads[i];
        bool is_named = t->tid == t->pid && strcmp(t->name, f->process) == 0;
        for (size_t k = 0; is_named && k < f->count; k++)
            is_named = f->list[k].pid != t->pid;
        err = is_named ? family_add(f, t->pid) : 0;
    }
    return err;
}

/* Reads the file of M. One that cannot be read is left out and counted. */
static int read_part(struct recording *rec, const struct family_member *m)
{
    struct run_error error;
    struct recording_part *parts = realloc(rec->parts, (rec->part_count + 1) * sizeof(*parts));
    if (!parts)
        return -ENOMEM;
    rec->parts = parts;
    struct recording_part *part = &parts[rec->part_count];
    *part = (struct recording_part){.is_chosen = m->is_chosen};
    int err = recording_peek(&part->rec, m->path, &error);
    if (err == 0) {
        rec->part_count++;
        err = rec_read_all(&part->rec);
        rec_find_duration(&part->rec);
    }
    if (err && err != -ENOMEM) {
        rec->unread_processes++;
        return 0;
    }
    if (err == 0 && m == rec->family->list)
        err = choose_by_threads(rec->family, &part->rec);
    return err ?: join_part(rec, part, (uint32_t)rec->part_count);
}

/* ---- all ---- */

/* Keeps only addresses and samples of a recording whose process was not chosen. */
static void strip(struct recording *rec)
{
    const struct family *f = rec->family;
    struct piano__rec_header *h = &rec->header;
    const struct recording_thread *t = f->pid_count ? recording_thread_of(rec, f->pids[0]) : NULL;
    for (size_t i = 0; i < rec->stack_count; i++)
        rec->stacks[i].sum = (struct recording_sum){.samples = 0};
    rec->total = (struct recording_sum){.samples = 0};
    rec->events.track_count = rec->events.segment_count = 0;
    rec->events.count = rec->events.bad = rec->events.unknown = 0;
    rec->live_chunk_count = 0;
    h->stats = (struct piano__heap_stats){.samples = 0};
    h->trace.events = 0;
    h->live_bytes = h->allocated_bytes = h->peak_bytes = 0;
    h->pid = f->pid_count ? f->pids[0] : h->pid;
    h->parent = 0;
    memset(h->program, 0, sizeof(h->program));
    memset(h->command, 0, sizeof(h->command));
    if (t)
        memcpy(h->program, t->name, sizeof(t->name));
    rec->end = RECORDING_UNKNOWN;
    rec->status = -1;
}

static bool has_process(const struct recording *rec)
{
    const struct family *f = rec->family;
    bool is_there = !f->process || f->list[f->base].is_chosen;
    for (size_t i = 0; !is_there && i < rec->sample_count; i++)
        is_there = family_has(f, rec->samples[i].pid);
    return is_there;
}

static int no_process(const struct recording *rec, struct run_error *error)
{
    char safe[2][300];
    snprintf(error->text, sizeof(error->text), "%s: there is no process `%s` in this recording",
             say_safe(safe[0], sizeof(safe[0]), rec->path),
             say_safe(safe[1], sizeof(safe[1]), rec->family->process));
    snprintf(error->hint, sizeof(error->hint), "piano report has a table of all processes");
    return -ENOENT;
}

static void forget_snapshots(struct recording *rec)
{
    for (size_t i = 0; i < rec->snapshot_count; i++)
        free(rec->snapshots[i].entries);
    rec->snapshot_count = 0;
}

/* The peak of several processes is not the sum of their peaks. */
static void forget_peaks(struct recording *rec)
{
    rec->header.peak_bytes = rec->header.peak_objects = rec->header.peak_variance = 0;
    rec->header.peak_ns = 0;
    for (size_t i = 0; i < rec->stack_count; i++) {
        struct recording_sum *s = &rec->stacks[i].sum;
        s->peak_bytes = s->peak_objects = s->peak_variance = 0;
    }
    rec->total.peak_bytes = rec->total.peak_objects = rec->total.peak_variance = 0;
}

/* What holds for all parts together. */
static int settle(struct recording *rec)
{
    rec_sort_modules(rec);
    int err = share_codes(rec) ?: rec_sort_threads(rec);
    if (err == 0 && rec->sample_count)
        err = rec_sort_samples(rec);
    err = err ?: rec_find_leader(rec);
    rec->has_cpu = rec->has_off = false;
    for (size_t i = 0; i < rec->sample_count; i++) {
        const struct recording_sample *s = &rec->samples[i];
        bool is_off = s->kind == PIANO_SAMPLE_OFF;
        uint64_t end = s->at_ns + (is_off ? s->value : 0);
        rec->has_cpu |= !is_off;
        rec->has_off |= is_off;
        rec->end_ns = end > rec->end_ns ? end : rec->end_ns;
    }
    if (rec->family->process) {
        const struct recording_process *p =
            rec->process_count == 1 && rec->family->pid_count == 1 ? rec->processes : NULL;
        bool is_alone = rec->header.trace.cpu_source == PIANO_CPU_TIMERS ||
                        (p && p->pid != rec->family->list[0].pid);
        rec_recount_samples(rec);
        rec->header.trace.kernel_ns = p && is_alone ? p->kernel_ns : 0;
    }
    if (!recording_is_one_heap(rec)) {
        forget_peaks(rec);
        forget_snapshots(rec);
    }
    return err;
}

int rec_join_family(struct recording *rec, struct run_error *error)
{
    struct family *f = rec->family;
    bool is_chosen = f->list[f->base].is_chosen;
    int err = f->base == 0 ? choose_by_threads(f, rec) : 0;
    *error = (struct run_error){.text = ""};
    rec_find_duration(rec);
    if (err == 0 && is_chosen)
        err = rec_add_process(rec, rec);
    else if (err == 0 && !has_process(rec))
        return no_process(rec, error);
    if (!is_chosen) {
        strip(rec);
        forget_snapshots(rec);
    }
    err = err ?: make_room(rec);
    for (size_t i = 0; i < f->count && err == 0; i++)
        if (i != f->base)
            err = read_part(rec, &f->list[i]);
    err = err ?: settle(rec);
    return err ? rec_fail(error, err, rec->path, "not enough memory to read its processes") : 0;
}
