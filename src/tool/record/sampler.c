/* Turns records of the kernel into samples.
 *
 * Records of all CPUs arrive in order of time. Records about mappings, names, forks and exits keep
 * a model of the processes (tasks, tool/unwind/space), which is used to walk the stack of a sample.
 *
 * When a thread leaves its CPU, the second event delivers its stack first. Then comes the record
 * that it leaves, and whether it was preempted, and a third record when it is back. The length of
 * the absence is unknown when the stack is taken, and most absences are too short to matter. So the
 * bytes of the stack are kept aside and walked when the thread is back or, at the latest, at the
 * end of a drain. If threads leave their CPUs often, the kernel copies less of their stacks (pace).
 * Absences beyond the size of the ring have no stack and are counted; the ring for these stacks
 * limits their cost. */
#include "tool/record/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "tool/util/vec.h"

static const uint64_t KERNEL_SPACE = UINT64_C(0xffff800000000000);
static const uint64_t CONTEXTS = (uint64_t)-4096; /* PERF_CONTEXT_...: markers between addresses */
static const uint64_t SETTLED_NS = 1000000;       /* records reach their ring within this time */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int sampler_init(struct sampler *c, unsigned hz, bool is_kernel)
{
    memset(c, 0, sizeof *c);
    c->wish = (struct perf_wish){.hz = hz, .kernel_chain = is_kernel};
    tasks_init(&c->tasks);
    journal_init(&c->journal);
    int err = perf_probe(&c->wish);
    if (err != 0)
        return err;
    c->unwinder = unwinder_new();
    c->raws = calloc(CPU_RAWS, sizeof *c->raws);
    if (!c->unwinder || !c->raws) {
        sampler_release(c);
        return -ENOMEM;
    }
    c->journal.trace.cpu_source = c->wish.source;
    c->journal.trace.cpu_hz = hz;
    return 0;
}

void sampler_release(struct sampler *c)
{
    if (c->is_open)
        perf_close(&c->perf);
    tasks_release(&c->tasks);
    unwinder_free(c->unwinder);
    journal_release(&c->journal);
    free(c->raws);
    free(c->ends);
    memset(c, 0, sizeof *c);
    journal_init(&c->journal);
}

/* Stacks --------------------------------------------------------------------------------------- */

/* Copies the kernel's frames from CHAIN, which has COUNT words. */
static void put_kernel(struct unwind_stack *s, const void *chain, size_t count)
{
    const unsigned char *at = chain;
    for (size_t i = 0; i < count && s->depth < PIANO_MAX_FRAMES / 2; i++) {
        uint64_t pc;
        memcpy(&pc, at + 8 * i, sizeof pc);
        if (pc >= KERNEL_SPACE && pc < CONTEXTS) {
            s->pcs[s->depth] = pc + (s->depth == 0); /* the first is not a return address */
            s->depth++;
        }
    }
}

/* Puts the modules of S into the recording, unless they are there already. */
static void tell_modules(struct sampler *c, struct space *space, const struct unwind_stack *s)
{
    for (uint32_t i = 0; i < s->depth; i++) {
        struct mapping *m = space_find(space, unwinder_codes(c->unwinder), s->pcs[i] - 1);
        if (!m || m->is_told)
            continue;
        m->is_told = true;
        journal_module(&c->journal, space->generation, m);
    }
}

static uint32_t walk(struct sampler *c, struct thread *t, const struct unwind_regs *regs,
                     const struct unwind_memory *memory, const void *chain, size_t chain_count,
                     bool *is_whole)
{
    struct unwind_stack s = {.depth = 0};
    struct space *space = &t->process->space;
    put_kernel(&s, chain, chain_count);
    unwind(c->unwinder, space, regs, memory, &s);
    tell_modules(c, space, &s);
    *is_whole = !(s.flags & (PIANO_STACK_LOST | PIANO_STACK_FULL));
    uint32_t stack = journal_stack(&c->journal, space->generation, &s);
    c->journal.no_stack += stack == 0;
    return stack;
}

static void stop_clock(struct thread *t, uint64_t at_ns)
{
    if (t->on_since_ns > 0 && at_ns > t->on_since_ns) {
        t->used_ns += at_ns - t->on_since_ns;
        t->process->used_ns += at_ns - t->on_since_ns;
    }
    t->on_since_ns = 0;
}

/* The last thread of a process ends. */
static void note_end(struct sampler *c, const struct process *p, uint64_t at_ns)
{
    if (p->threads > 1 || c->end_count == SAMPLER_ENDS || VEC_DOUBLE(c->ends, c->end_count) != 0)
        return;
    c->ends[c->end_count++] =
        (struct sampler_end){.pid = p->pid, .at_ns = at_ns, .used_ns = p->used_ns};
}

const struct sampler_end *sampler_end_of(const struct sampler *c, uint32_t pid)
{
    for (size_t i = c->end_count; i-- > 0;) {
        if (c->ends[i].pid == pid)
            return &c->ends[i];
    }
    return NULL;
}

static void tell_thread(struct sampler *c, struct thread *t, uint64_t at_ns)
{
    if (t->is_told)
        return;
    t->is_told = true;
    journal_thread(&c->journal, t->process->pid, t->tid, at_ns, t->name);
}

static void put_sample(struct sampler *c, struct thread *t, const struct piano__sample *s,
                       bool is_whole)
{
    tell_thread(c, t, s->at_ns);
    journal_sample(&c->journal, s);
    c->journal.trace.samples++;
    c->journal.trace.sampled_ns += s->value;
    c->journal.trace.samples_unwound += is_whole;
    t->sampled_ns += s->value;
    t->sampled_stack = s->stack;
    t->is_sampled_whole = is_whole;
}

static void take_sample(struct sampler *c, struct thread *t, const struct perf_event *e)
{
    struct piano__sample s = {.bytes = sizeof s,
                              .kind = PIANO_SAMPLE_CPU,
                              .tid = t->tid,
                              .pid = t->process->pid,
                              .at_ns = e->time,
                              .value = e->period,
                              .cpu = e->cpu};
    bool is_whole = false;
    if (c->wish.source == PIANO_CPU_CYCLES)
        s.value = (uint64_t)((double)e->period * c->wish.ns_per_cycle);
    if (e->has_regs)
        s.stack = walk(c, t, &e->regs, &e->memory, e->chain, e->chain_count, &is_whole);
    if (t->on_since_ns == 0) /* it was running when the recording began */
        t->on_since_ns = e->time > s.value ? e->time - s.value : e->time;
    put_sample(c, t, &s, is_whole);
}

/* CPU time without a sample ---------------------------------------------------------------------- */

/* If each thread is sampled by itself, the kernel begins with a whole period in each, and what a
 * thread does after its last sample is missing, or everything if it is shorter than a period. When
 * it ends, the records of its switches say how long it ran. The rest is added to its newest stack,
 * or to none. The kernel may let a thread continue the period of another one that ran before it on
 * the same CPU. Then the samples of one are ahead of its time, and those of the other behind; only
 * the sum is known. Without samples of the kernel's work, the rest is known only of a thread that
 * has no sample. */
static void put_rest(struct sampler *c, struct thread *t, const struct perf_event *exit)
{
    struct process *p = t->process;
    stop_clock(t, exit->time);
    if (c->wish.by_cpu || (c->wish.without_kernel && t->sampled_ns > 0))
        return;
    if (t->sampled_ns >= t->used_ns) {
        p->ahead_ns += t->sampled_ns - t->used_ns;
        return;
    }
    uint64_t rest = t->used_ns - t->sampled_ns;
    uint64_t known = rest < p->ahead_ns ? rest : p->ahead_ns;
    p->ahead_ns -= known;
    const struct piano__sample s = {.bytes = sizeof s,
                                    .kind = PIANO_SAMPLE_CPU,
                                    .tid = t->tid,
                                    .pid = p->pid,
                                    .at_ns = exit->time,
                                    .value = rest - known,
                                    .stack = t->sampled_stack,
                                    .cpu = exit->cpu};
    if (s.value > 0)
        put_sample(c, t, &s, t->is_sampled_whole);
}

/* Away from the CPU ---------------------------------------------------------------------------- */

static void forget_raw(struct sampler *c, struct thread *t)
{
    if (t->raw)
        c->raws[t->raw - 1].tid = 0;
    t->raw = 0;
}

static void walk_raw(struct sampler *c, struct thread *t)
{
    bool is_whole;
    if (!t->raw)
        return;
    const struct cpu_raw *raw = &c->raws[t->raw - 1];
    t->stack = walk(c, t, &raw->regs, &raw->memory, raw->chain, raw->chain_count, &is_whole);
    forget_raw(c, t);
}

/* A thread is about to leave its CPU: keeps a copy of its stack. */
static void keep_raw(struct sampler *c, struct thread *t, const struct perf_event *e)
{
    forget_raw(c, t);
    t->stack = 0;
    t->stack_ns = e->time;
    if (!e->has_regs || e->memory.size > sizeof c->raws[0].bytes)
        return;
    for (uint32_t i = 0; i < CPU_RAWS; i++) {
        struct cpu_raw *raw = &c->raws[(t->tid + i) % CPU_RAWS];
        if (raw->tid != 0)
            continue;
        t->raw = (t->tid + i) % CPU_RAWS + 1;
        raw->tid = t->tid;
        raw->regs = e->regs;
        raw->memory = e->memory;
        raw->memory.bytes = raw->bytes;
        memcpy(raw->bytes, e->memory.bytes, e->memory.size);
        raw->chain_count =
            e->chain_count < PIANO_MAX_FRAMES / 2 ? e->chain_count : PIANO_MAX_FRAMES / 2;
        if (raw->chain_count)
            memcpy(raw->chain, e->chain, raw->chain_count * sizeof raw->chain[0]);
        return;
    }
}

static void leave(struct sampler *c, struct thread *t, const struct perf_event *e)
{
    static const uint64_t ONE_SWITCH_NS = 1000000;
    c->journal.trace.switches++;
    c->leaves++;
    stop_clock(t, e->time);
    t->is_away = true;
    t->is_preempted = e->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
    t->left_ns = e->time;
    t->cpu = e->cpu;
    /* The stack is from an earlier switch: there was no room for the stack of this one. */
    if (t->stack_ns == 0 || e->time - t->stack_ns > ONE_SWITCH_NS) {
        forget_raw(c, t);
        t->stack = 0;
    }
}

/* NS: length of the absence; 0: the thread did not come back. */
static void put_absence(struct sampler *c, struct thread *t, uint64_t ns)
{
    struct piano__sample s = {.bytes = sizeof s,
                              .kind = PIANO_SAMPLE_OFF,
                              .flags = t->is_preempted ? PIANO_SAMPLE_PREEMPTED : 0,
                              .tid = t->tid,
                              .pid = t->process->pid,
                              .at_ns = t->left_ns,
                              .value = ns,
                              .cpu = t->cpu};
    walk_raw(c, t);
    s.stack = t->stack;
    c->away++;
    c->away_blind += s.stack == 0;
    tell_thread(c, t, t->left_ns);
    journal_sample(&c->journal, &s);
}

static void come_back(struct sampler *c, struct thread *t, uint64_t at_ns)
{
    uint64_t ns = at_ns > t->left_ns ? at_ns - t->left_ns : 0;
    if (t->is_away && ns >= CPU_AWAY_NS)
        put_absence(c, t, ns);
    forget_raw(c, t);
    t->on_since_ns = at_ns;
    t->is_away = false;
    t->stack = 0;
    t->stack_ns = 0;
}

/* Walks the stacks of threads that have been away for long enough already. */
static void settle_raws(struct sampler *c, uint64_t until)
{
    for (size_t i = 0; i < CPU_RAWS; i++) {
        if (c->raws[i].tid == 0)
            continue;
        struct thread *t = tasks_find(&c->tasks, c->raws[i].tid);
        if (!t || t->raw != i + 1)
            c->raws[i].tid = 0;
        else if (t->is_away && until > t->left_ns + CPU_AWAY_NS)
            walk_raw(c, t);
    }
}

/* Records are missing, so it is unknown which threads came back in between. */
static void forget_absences(struct sampler *c)
{
    for (size_t i = 0; i < TASK_BUCKETS; i++) {
        for (struct thread *t = c->tasks.threads[i]; t; t = t->next) {
            t->is_away = false;
            t->on_since_ns = 0;
        }
    }
}

static void end_absences(struct sampler *c)
{
    for (size_t i = 0; i < TASK_BUCKETS; i++) {
        for (struct thread *t = c->tasks.threads[i]; t; t = t->next) {
            if (t->is_away)
                put_absence(c, t, 0);
            t->is_away = false;
        }
    }
}

/* Everything else ------------------------------------------------------------------------------ */

/* A runtime that dumps its JIT code maps the dump, so that profilers learn where it is. */
static bool is_dump(const char *path)
{
    const char *base = strrchr(path, '/');
    size_t len = strlen(path);
    return base && strncmp(base, "/jit-", 5) == 0 && strcmp(path + len - 5, ".dump") == 0;
}

void sampler_map(struct sampler *c, struct space *space, const struct mapped *m)
{
    bool is_file = m->path[0] == '/' && m->path[1] != '/'; /* PIANO_NO_FILE is not */
    struct code *code = NULL;
    if (is_file || strcmp(m->path, "[vdso]") == 0)
        code = codes_get(unwinder_codes(c->unwinder), m->path, is_file ? m->inode : 0);
    space_map(space, m->start, m->end, m->offset, code, &c->tasks.generations);
    struct mapping *found =
        is_dump(m->path) ? space_find(space, unwinder_codes(c->unwinder), m->start) : NULL;
    if (found && found->code && !found->is_told) {
        found->is_told = true;
        journal_module(&c->journal, space->generation, found);
    }
}

static void map(struct sampler *c, struct thread *t, const struct perf_event *e)
{
    const struct mapped m = {e->name, e->start, e->end, e->offset, e->inode};
    sampler_map(c, &t->process->space, &m);
}

static void fork_task(struct sampler *c, const struct perf_event *e)
{
    const struct thread *from = tasks_find(&c->tasks, e->parent_tid);
    char name[TASK_NAME] = "";
    if (from)
        memcpy(name, from->name, sizeof name);
    struct thread *t = tasks_fork(&c->tasks, e->parent_pid, e->pid, e->tid);
    if (t)
        tasks_name(t, name);
}

/* The process runs another program from now on. */
static void start_image(struct sampler *c, struct thread *t, uint64_t at_ns)
{
    space_clear(&t->process->space, &c->tasks.generations);
    if (t->on_since_ns == 0)
        t->on_since_ns = at_ns;
}

static void take_of_thread(struct sampler *c, struct thread *t, const struct perf_event *e)
{
    switch (e->type) {
    case PERF_RECORD_SAMPLE:
        take_sample(c, t, e);
        break;
    case PERF_RECORD_MMAP2:
        map(c, t, e);
        break;
    case PERF_RECORD_COMM:
        if (e->misc & PERF_RECORD_MISC_COMM_EXEC)
            start_image(c, t, e->time);
        tasks_name(t, e->name);
        break;
    case PERF_RECORD_SWITCH:
        if (e->misc & PERF_RECORD_MISC_SWITCH_OUT)
            leave(c, t, e);
        else
            come_back(c, t, e->time);
        break;
    default:
        break;
    }
}

/* Is this a sample of another program? The kernel has reported every thread of ours before. */
static bool is_of_others(const struct sampler *c, const struct perf_event *e, bool is_switch)
{
    return c->wish.by_cpu && e->type == PERF_RECORD_SAMPLE && !is_switch &&
           !tasks_find(&c->tasks, e->tid);
}

static void take(void *ctx, const struct perf_event *e, bool is_switch)
{
    struct sampler *c = ctx;
    bool is_lost = e->type == PERF_RECORD_LOST || e->type == PERF_RECORD_LOST_SAMPLES;
    if (is_lost && is_switch) {
        c->has_lost_stacks = true;
    } else if (is_lost) {
        c->journal.trace.samples_lost += e->lost;
        forget_absences(c);
    } else if (e->type == PERF_RECORD_FORK) {
        fork_task(c, e);
    } else if (e->type == PERF_RECORD_EXIT) {
        struct thread *t = tasks_find(&c->tasks, e->tid);
        if (t) {
            put_rest(c, t, e);
            note_end(c, t->process, e->time);
            forget_raw(c, t);
        }
        tasks_exit(&c->tasks, e->tid);
    } else if (is_of_others(c, e, is_switch)) {
        return;
    } else if (e->pid != (uint32_t)-1 && e->tid != 0) {
        struct thread *t = tasks_get(&c->tasks, e->pid, e->tid);
        if (!t)
            c->tid_unknown++;
        else if (is_switch)
            keep_raw(c, t, e);
        else
            take_of_thread(c, t, e);
    }
}

/* From outside --------------------------------------------------------------------------------- */

/* The events of all CPUs begin with a whole period. Lets a random part of it pass, so that a
 * program that is shorter than a period has its share of samples. */
static void wait_for_phase(const struct sampler *c)
{
    static const uint64_t SECOND = 1000000000, MOST_NS = 20000000;
    uint64_t period = SECOND / c->wish.hz, random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = now_ns();
    random %= period < MOST_NS ? period : MOST_NS;
    const struct timespec part = {.tv_nsec = (long)random};
    nanosleep(&part, NULL);
}

int sampler_await(struct sampler *c, pid_t pid)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return -errno;
    int err = perf_open(&c->perf, &c->wish, &mask, pid, true);
    c->is_open = err == 0;
    if (c->is_open && c->wish.by_cpu)
        wait_for_phase(c);
    return err;
}

void sampler_drain(struct sampler *c, bool is_last)
{
    if (!c->is_open)
        return;
    uint64_t now = now_ns();
    uint64_t until = is_last ? UINT64_MAX : now - SETTLED_NS;
    c->has_lost_stacks = false;
    perf_drain(&c->perf, until, take, c);
    settle_raws(c, until);
    perf_shorten(&c->perf, pace_look(&c->pace, now, c->leaves, c->has_lost_stacks));
    if (is_last)
        end_absences(c);
    journal_flush(&c->journal);
}

void sampler_stop(struct sampler *c)
{
    if (!c->is_open)
        return;
    sampler_drain(c, true);
    perf_close(&c->perf);
    c->is_open = false;
    c->is_stopped = true;
}

double sampler_patience(const struct sampler *c)
{
    static const double USUAL_S = 0.1;
    static const double SHORT_S = 0.05;
    static const double BUSY_S = 0.0125; /* a ring of 2 MB then holds all stacks up to PACE_STORM */
    if (pace_hurries(&c->pace))
        return BUSY_S;
    return c->wish.hz > 200 ? SHORT_S : USUAL_S;
}
