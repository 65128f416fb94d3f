/* Reads CPU samples and adds them up by process, thread and function. */
#include "tool/profile/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

/* ---- processes and threads ---- */

struct parts {
    struct cpu_part *list;
    size_t count, cap;
    struct map index; /* by pid and tid */
};

/* Adds S to the part of PID and TID. */
static int add_sample(struct parts *parts, uint32_t pid, uint32_t tid,
                      const struct recording_sample *s)
{
    bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
    uint64_t key = (uint64_t)pid << 32 | tid;
    uint32_t at = map_find(&parts->index, key);
    if (at == MAP_NONE) {
        at = (uint32_t)parts->count;
        if (VEC_ROOM(parts->list, parts->count, parts->cap) || map_put(&parts->index, key, at))
            return -ENOMEM;
        parts->list[parts->count++] = (struct cpu_part){.pid = pid, .tid = tid};
    }
    struct cpu_part *p = &parts->list[at];
    p->cpu_ns += cpu ? s->value : 0;
    p->samples += cpu;
    p->off_ns += !cpu && !preempted ? s->value : 0;
    p->preempted_ns += !cpu && preempted ? s->value : 0;
    return 0;
}

static int compare_parts(const void *a, const void *b)
{
    const struct cpu_part *x = a, *y = b;
    return ORDER(y->cpu_ns, x->cpu_ns) ?: ORDER(x->pid, y->pid) ?: ORDER(x->tid, y->tid);
}

static struct cpu_part *sort_parts(struct parts *parts)
{
    if (parts->count)
        qsort(parts->list, parts->count, sizeof(*parts->list), compare_parts);
    map_release(&parts->index);
    return parts->list;
}

static int find_parts(struct cpu *c)
{
    struct parts processes = {.list = NULL}, threads = {.list = NULL};
    int err = 0;
    for (size_t i = 0; i < c->rec->sample_count && err == 0; i++) {
        struct recording_sample s;
        if (recording_clip(c->rec, &c->rec->samples[i], &s))
            err = add_sample(&processes, s.pid, 0, &s) ?: add_sample(&threads, s.pid, s.tid, &s);
    }
    c->processes = sort_parts(&processes);
    c->process_count = processes.count;
    c->threads = sort_parts(&threads);
    c->thread_count = threads.count;
    return err;
}

int cpu_make(struct cpu *c, struct profile *p, struct run_error *error)
{
    *c = (struct cpu){.profile = p, .rec = &p->rec};
    int err = find_parts(c);
    say_progress("naming %zu stacks", c->rec->stack_count);
    for (uint32_t i = 0; i < c->rec->stack_count && err == 0; i++) {
        const struct recording_sum *sum = &c->rec->stacks[i].sum;
        if (sum->cpu_samples || sum->off_samples || sum->preempted_ns)
            err = profile_name_stack(p, i);
    }
    say_progress_done();
    if (err) {
        char safe[300];
        *error = (struct run_error){.text = ""};
        snprintf(error->text, sizeof(error->text), "%s: not enough memory for its samples",
                 say_safe(safe, sizeof(safe), p->rec.path));
        cpu_release(c);
    }
    return err;
}

void cpu_release(struct cpu *c)
{
    free(c->processes);
    free(c->threads);
    *c = (struct cpu){.rec = NULL};
}

/* ---- functions ---- */

struct maker {
    struct cpu_flat *f;
    struct map rows; /* by a hash of the pointers of function and module */
};

static struct cpu_row *row_of(struct maker *m, const struct symbol_frame *frame)
{
    struct cpu_flat *f = m->f;
    const char *const names[] = {frame->function, frame->module};
    uint64_t key = map_hash(names, sizeof(names));
    uint32_t at;
    for (; (at = map_find(&m->rows, key)) != MAP_NONE; key++)
        if (f->rows[at].function == frame->function && f->rows[at].module == frame->module)
            return &f->rows[at];
    if (VEC_ROOM(f->rows, f->count, f->cap) || map_put(&m->rows, key, (uint32_t)f->count))
        return NULL;
    f->rows[f->count] =
        (struct cpu_row){.function = frame->function, .module = frame->module, .file = frame->file};
    return &f->rows[f->count++];
}

static int add_stack(struct maker *m, const struct profile *named, uint32_t stack,
                     const struct recording_sum *sum, const struct symbol_frame **frames)
{
    size_t count = profile_frames(named, stack, frames);
    for (size_t i = 0; i < count; i++) {
        struct cpu_row *row = row_of(m, frames[i]);
        if (!row)
            return -ENOMEM;
        row->self_ns += i == 0 ? sum->cpu_ns : 0;
        row->self_samples += i == 0 ? sum->cpu_samples : 0;
        row->self_squares += i == 0 ? sum->cpu_squares : 0;
        if (row->seen == stack + 1)
            continue;
        row->seen = stack + 1;
        row->total_ns += sum->cpu_ns;
        row->total_samples += sum->cpu_samples;
        row->off_ns += sum->off_ns;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct cpu_row *x = a, *y = b;
    return ORDER(y->self_ns, x->self_ns) ?: ORDER(y->total_ns, x->total_ns)
        ?: ORDER(y->off_ns, x->off_ns) ?: strcmp(x->function, y->function)
        ?: strcmp(x->module, y->module);
}

/* Sums by stack of the samples of PID and TID. */
static struct recording_sum *sums_of(const struct cpu *c, uint32_t pid, uint32_t tid)
{
    const struct recording *rec = c->rec;
    struct recording_sum *sums = calloc(rec->stack_count, sizeof(*sums));
    size_t from = 0, to = rec->sample_count;
    if (tid)
        from = recording_samples_of(rec, tid, 0, &to);
    for (size_t i = from; sums && i < to; i++) {
        struct recording_sample part;
        const struct recording_sample *s = &part;
        if ((pid && rec->samples[i].pid != pid) || !recording_clip(rec, &rec->samples[i], &part))
            continue;
        bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
        sums[s->stack].cpu_samples += cpu;
        sums[s->stack].cpu_ns += cpu ? s->value : 0;
        sums[s->stack].cpu_squares += cpu ? (double)s->value * (double)s->value : 0;
        sums[s->stack].off_samples += !cpu && !preempted;
        sums[s->stack].off_ns += !cpu && !preempted ? s->value : 0;
        sums[s->stack].preempted_ns += !cpu && preempted ? s->value : 0;
    }
    return sums;
}

/* SUMS: by stack; NULL: those of the stacks themselves. */
static int make_flat(struct cpu_flat *f, const struct cpu *c, const struct recording_sum *sums)
{
    struct maker m = {.f = f};
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    *f = (struct cpu_flat){.rows = NULL};
    int err = frames ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < c->rec->stack_count && err == 0; i++) {
        const struct recording_sum *sum = sums ? &sums[i] : &c->rec->stacks[i].sum;
        f->cpu_ns += sum->cpu_ns;
        f->samples += sum->cpu_samples;
        f->off_ns += sum->off_ns;
        f->preempted_ns += sum->preempted_ns;
        f->switches += sum->off_samples;
        if (sum->cpu_samples || sum->off_samples)
            err = add_stack(&m, c->profile, i, sum, frames);
    }
    if (f->count)
        qsort(f->rows, f->count, sizeof(*f->rows), compare_rows);
    map_release(&m.rows);
    free(frames);
    return err;
}

int cpu_flat_make(struct cpu_flat *f, struct cpu *c, uint32_t pid, uint32_t tid)
{
    struct recording_sum *sums = sums_of(c, pid, tid);
    *f = (struct cpu_flat){.rows = NULL};
    int err = sums ? make_flat(f, c, sums) : -ENOMEM;
    free(sums);
    return err;
}

int cpu_flat_all(struct cpu_flat *f, const struct cpu *c)
{
    return make_flat(f, c, NULL);
}

void cpu_flat_release(struct cpu_flat *f)
{
    free(f->rows);
    *f = (struct cpu_flat){.rows = NULL};
}

/* ---- words ---- */

const char *cpu_thread_name(char *text, size_t size, const struct recording *rec, uint32_t tid)
{
    const struct recording_thread *t = recording_thread_of(rec, tid);
    char safe[100];
    if (t && t->name[0])
        snprintf(text, size, "%s (%u)", say_safe(safe, sizeof(safe), t->name), tid);
    else
        snprintf(text, size, "thread %u", tid);
    return text;
}

const char *cpu_source_text(char *text, size_t size, const struct recording *rec)
{
    static const char *const sources[] = {"", "cpu-clock", "cycles", "timers in the program"};
    const struct piano__trace *t = &rec->header.trace;
    const char *source = t->cpu_source < 4 ? sources[t->cpu_source] : "";
    if (t->cpu_hz)
        snprintf(text, size, "%s%sat %llu Hz", source, *source ? " " : "",
                 (unsigned long long)t->cpu_hz);
    else
        snprintf(text, size, "%s", source);
    return text;
}
