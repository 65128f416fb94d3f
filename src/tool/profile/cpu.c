/* Reads CPU samples and adds them up by process, thread and function. */
#include "tool/profile/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/say.h"

/* ---- processes and threads ---- */

static void add_sample(struct cpu_part *p, const struct recording_sample *s)
{
    bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
    p->cpu_ns += cpu ? s->value : 0;
    p->samples += cpu;
    p->off_ns += !cpu && !preempted ? s->value : 0;
    p->preempted_ns += !cpu && preempted ? s->value : 0;
}

static int compare_parts(const void *a, const void *b)
{
    const struct cpu_part *x = a, *y = b;
    if (x->cpu_ns != y->cpu_ns)
        return x->cpu_ns > y->cpu_ns ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Finds or creates the part of the list for KEY. Samples of one thread are neighbours. */
static int add_to(struct cpu_part **list, size_t *count, size_t *cap, struct map *map, uint64_t key,
                  struct cpu_part new, const struct recording_sample *s)
{
    uint32_t at = map_find(map, key);
    if (at == MAP_NONE) {
        if (*count == *cap) {
            size_t more_cap = *cap ? *cap * 2 : 16;
            struct cpu_part *more = realloc(*list, more_cap * sizeof(*more));
            if (!more)
                return -ENOMEM;
            *list = more;
            *cap = more_cap;
        }
        at = (uint32_t)*count;
        if (map_put(map, key, at) != 0)
            return -ENOMEM;
        (*list)[(*count)++] = new;
    }
    add_sample(&(*list)[at], s);
    return 0;
}

static int find_parts(struct cpu *c)
{
    struct map pids = {.slots = NULL}, tids = {.slots = NULL};
    size_t process_cap = 0, thread_cap = 0;
    int err = 0;
    for (size_t i = 0; i < c->rec->sample_count && err == 0; i++) {
        const struct recording_sample *s = &c->rec->samples[i];
        err = add_to(&c->processes, &c->process_count, &process_cap, &pids, s->pid,
                     (struct cpu_part){.pid = s->pid}, s);
        if (err == 0)
            err = add_to(&c->threads, &c->thread_count, &thread_cap, &tids,
                         (uint64_t)s->pid << 32 | s->tid,
                         (struct cpu_part){.pid = s->pid, .tid = s->tid}, s);
    }
    if (c->process_count)
        qsort(c->processes, c->process_count, sizeof(*c->processes), compare_parts);
    if (c->thread_count)
        qsort(c->threads, c->thread_count, sizeof(*c->threads), compare_parts);
    map_release(&pids);
    map_release(&tids);
    return err;
}

int cpu_make(struct cpu *c, struct profile *p, struct run_error *error)
{
    *c = (struct cpu){.profile = p, .rec = &p->rec};
    int err = find_parts(c);
    say_progress("naming %zu stacks", c->rec->stack_count);
    for (uint32_t i = 0; i < c->rec->stack_count && err == 0; i++)
        if (c->rec->stacks[i].sum.cpu_samples || c->rec->stacks[i].sum.off_samples)
            err = profile_name_stack(p, i);
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
    struct map rows; /* from the pointer of a name to its first row */
};

static struct cpu_row *row_of(struct maker *m, const struct symbol_frame *frame)
{
    struct cpu_flat *f = m->f;
    uint32_t first = map_find(&m->rows, (uintptr_t)frame->function);
    for (uint32_t at = first; at != MAP_NONE; at = f->rows[at].next)
        if (f->rows[at].module == frame->module)
            return &f->rows[at];
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 128;
        struct cpu_row *more = realloc(f->rows, cap * sizeof(*more));
        if (!more)
            return NULL;
        f->rows = more;
        f->cap = cap;
    }
    uint32_t new = (uint32_t)f->count;
    f->rows[new] = (struct cpu_row){.function = frame->function,
                                    .module = frame->module,
                                    .file = frame->file,
                                    .next = MAP_NONE};
    if (first == MAP_NONE) {
        if (map_put(&m->rows, (uintptr_t)frame->function, new) != 0)
            return NULL;
    } else {
        f->rows[new].next = f->rows[first].next;
        f->rows[first].next = new;
    }
    f->count++;
    return &f->rows[new];
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
    const uint64_t keys[2][3] = {{x->self_ns, x->total_ns, x->off_ns},
                                 {y->self_ns, y->total_ns, y->off_ns}};
    for (int i = 0; i < 3; i++)
        if (keys[0][i] != keys[1][i])
            return keys[0][i] > keys[1][i] ? -1 : 1;
    int order = strcmp(x->function, y->function);
    return order ? order : strcmp(x->module, y->module);
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
        const struct recording_sample *s = &rec->samples[i];
        bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
        if (pid && s->pid != pid)
            continue;
        sums[s->stack].cpu_samples += cpu;
        sums[s->stack].cpu_ns += cpu ? s->value : 0;
        sums[s->stack].cpu_squares += cpu ? (double)s->value * (double)s->value : 0;
        sums[s->stack].off_samples += !cpu && !preempted;
        sums[s->stack].off_ns += !cpu && !preempted ? s->value : 0;
        sums[s->stack].preempted_ns += !cpu && preempted ? s->value : 0;
    }
    return sums;
}

int cpu_flat_make(struct cpu_flat *f, struct cpu *c, uint32_t pid, uint32_t tid)
{
    struct maker m = {.f = f};
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct recording_sum *sums = sums_of(c, pid, tid);
    *f = (struct cpu_flat){.rows = NULL};
    int err = frames && sums ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < c->rec->stack_count && err == 0; i++) {
        f->cpu_ns += sums[i].cpu_ns;
        f->samples += sums[i].cpu_samples;
        f->off_ns += sums[i].off_ns;
        f->preempted_ns += sums[i].preempted_ns;
        f->switches += sums[i].off_samples;
        if (sums[i].cpu_samples || sums[i].off_samples)
            err = add_stack(&m, c->profile, i, &sums[i], frames);
    }
    if (f->count)
        qsort(f->rows, f->count, sizeof(*f->rows), compare_rows);
    map_release(&m.rows);
    free(sums);
    free(frames);
    return err;
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
