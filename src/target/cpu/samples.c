/* LANES. A log of the recording has one writer at a time, and a signal handler cannot wait. So
 * there are several copies of each log, called lanes. A handler takes the first lane that is not
 * busy, so no more lanes are used than handlers run at once. If all are busy, the sample is dropped
 * and counted.
 *
 * STACKS have their own range of numbers, and no sums (TOTALS). An open-addressing hash table has
 * pointers to the stacks in the recording. A new stack is written in the lane, and then put into
 * the table by CAS. If two handlers have the same new stack at once, both write it, and readers
 * merge them.
 *
 * MODULES are written when a new stack passes through them. A generation ends when libraries are
 * unloaded. After that, modules are written again when they are found again, and stacks get new
 * numbers. A table contains the modules that are already written. Its entries are reused in turn,
 * and an entry that changes while it is read is ignored. */
#include "target/cpu/samples.h"

#include <limits.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/python.h"
#include "target/python/frames.h"
#include "target/record/control.h"
#include "target/record/modules.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/log.h"
#include "target/sys/recording.h"
#include "target/record/stats.h"

enum {
    LANES = 32,
    PLACES = 1 << 18,
    MOST_STACKS = PLACES / 2,
    TOLD = 1024,
    MOST_TOLD = 12 * 1024, /* in total; readers accept somewhat more */
    MOST_CHUNKS = 8192,    /* 512 MB */
};

struct lane {
    uint32_t busy;
    struct piano__log samples, stacks, modules, threads;
    char path[PATH_MAX];
    struct piano__python_room python;
} __attribute__((aligned(64)));

struct told {
    uint32_t generation; /* 0: empty, or being changed */
    uintptr_t start, end;
};

static struct {
    struct lane *lanes;
    struct piano__stack **index;
    uint32_t stacks;
    uint32_t generation; /* from 1; in the recording it is added to PIANO_CPU_STACK */
    struct told told[TOLD];
    uint32_t told_count;
    uint32_t chunks;
    uint64_t unloads; /* as counted by the loader; initially 0 */
} all;

bool piano__cpu_samples_init(void)
{
    if (!all.lanes)
        all.lanes = piano__memory_map(LANES * sizeof *all.lanes);
    if (!all.index)
        all.index = piano__memory_map(PLACES * sizeof(struct piano__stack *));
    /* Relaxed: sampling is off, and the gate publishes it. */
    __atomic_add_fetch(&all.generation, 1, __ATOMIC_RELAXED);
    if (!all.lanes || !all.index)
        return false;
    struct lane *first = &all.lanes[0];
    return piano__log_room(&first->samples, PIANO_CHUNK_SAMPLES, 0) &&
           piano__log_room(&first->stacks, PIANO_CHUNK_STACKS, 0) &&
           piano__log_room(&first->modules, PIANO_CHUNK_MODULES, 0) &&
           piano__log_room(&first->threads, PIANO_CHUNK_THREADS, 0);
}

void piano__cpu_samples_forget(void)
{
    if (all.lanes)
        piano__memory_unmap(all.lanes, LANES * sizeof *all.lanes);
    if (all.index)
        piano__memory_unmap(all.index, PLACES * sizeof(struct piano__stack *));
    memset(&all, 0, sizeof all);
}

/* Unloading ------------------------------------------------------------------------------------ */

static int read_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
    uint64_t *unloads = arg;
    *unloads = size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs
                   ? info->dlpi_subs
                   : *unloads + 1;
    return 1;
}

/* The first call counts as an unload, because the previous count is unknown. It cannot be read at
 * the start: that would include forked children, where a thread that does not exist there may hold
 * the loader's lock. */
void piano__cpu_samples_unloaded(void)
{
    uint64_t unloads = __atomic_load_n(&all.unloads, __ATOMIC_RELAXED);
    if (!all.lanes)
        return;
    dl_iterate_phdr(read_unloads, &unloads);
    /* An exchange, so that only one of several callers counts the change. */
    if (unloads != __atomic_exchange_n(&all.unloads, unloads, __ATOMIC_RELAXED))
        /* Pairs with the acquire in intern(). */
        __atomic_add_fetch(&all.generation, 1, __ATOMIC_RELEASE);
}

/* Logs ----------------------------------------------------------------------------------------- */

static void *room(struct piano__log *log, uint32_t type, uint32_t bytes)
{
    uint64_t before = log->chunks;
    bool is_full = !log->chunk || log->chunk->used + bytes > PIANO_REC_PAYLOAD;
    if (is_full && __atomic_load_n(&all.chunks, __ATOMIC_RELAXED) >= MOST_CHUNKS)
        return NULL;
    void *at = piano__log_room(log, type, bytes);
    if (log->chunks != before)
        __atomic_add_fetch(&all.chunks, 1, __ATOMIC_RELAXED);
    return at;
}

static struct lane *take_lane(void)
{
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &all.lanes[i];
        /* Pairs with the release in piano__cpu_samples_put(). */
        if (!__atomic_load_n(&l->busy, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(&l->busy, 1, __ATOMIC_ACQUIRE))
            return l;
    }
    return NULL;
}

/* Modules -------------------------------------------------------------------------------------- */

static bool is_told(uintptr_t pc, uint32_t generation)
{
    /* Pairs with the acq_rel add in remember_told(). */
    uint32_t count = __atomic_load_n(&all.told_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < TOLD; i++) {
        const struct told *t = &all.told[i];
        /* Pairs with the release in remember_told(): `start` and `end` belong to this
         * generation. */
        if (__atomic_load_n(&t->generation, __ATOMIC_ACQUIRE) != generation)
            continue;
        uintptr_t start = __atomic_load_n(&t->start, __ATOMIC_RELAXED);
        uintptr_t end = __atomic_load_n(&t->end, __ATOMIC_RELAXED);
        /* Pairs with the release fence in remember_told(). Orders the fields before the second
         * load. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (pc >= start && pc < end &&
            __atomic_load_n(&t->generation, __ATOMIC_RELAXED) == generation)
            return true;
    }
    return false;
}

static void remember_told(const struct piano__module_info *info, uint32_t generation)
{
    /* Pairs with the acquire load of `told_count` in is_told(). */
    struct told *t = &all.told[__atomic_fetch_add(&all.told_count, 1, __ATOMIC_ACQ_REL) % TOLD];
    __atomic_store_n(&t->generation, 0, __ATOMIC_RELAXED);
    /* Pairs with the acquire fence in is_told(): a reader that sees a new field sees generation
     * 0. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&t->start, info->start, __ATOMIC_RELAXED);
    __atomic_store_n(&t->end, info->end, __ATOMIC_RELAXED);
    /* Pairs with the acquire in is_told(). */
    __atomic_store_n(&t->generation, generation, __ATOMIC_RELEASE);
}

static void tell_module(struct lane *l, uintptr_t pc, uint32_t generation)
{
    struct piano__module_info info;
    if (is_told(pc, generation) || !piano__module_find(pc, &info) ||
        __atomic_load_n(&all.told_count, __ATOMIC_RELAXED) >= MOST_TOLD)
        return;
    const char *path = piano__module_path(&info, l->path);
    uint32_t bytes = piano__module_bytes(path);
    struct piano__module *m = room(&l->modules, PIANO_CHUNK_MODULES, bytes);
    if (!m)
        return;
    piano__module_fill(m, &info, path, PIANO_CPU_STACK + generation,
                       PIANO_CPU_STACK + generation + 1);
    piano__log_commit(&l->modules, bytes);
    remember_told(&info, generation);
}

/* Stacks --------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct piano__walk *walk, uint32_t generation)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ (uint64_t)generation << 32 ^ walk->flags;
    for (uint32_t i = 0; i < walk->depth; i++) {
        hash = (hash ^ walk->pcs[i]) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool is_same(const struct piano__stack *s, const struct piano__walk *walk, uint64_t hash,
                    uint32_t generation)
{
    return s->hash == hash && s->depth == walk->depth && s->flags == walk->flags &&
           s->generation == PIANO_CPU_STACK + generation &&
           memcmp(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]) == 0;
}

static struct piano__stack *write_stack(struct lane *l, const struct piano__walk *walk,
                                        uint64_t hash, uint32_t generation)
{
    uint32_t bytes = (uint32_t)(sizeof(struct piano__stack) + walk->depth * sizeof(uint64_t));
    if (__atomic_load_n(&all.stacks, __ATOMIC_RELAXED) >= MOST_STACKS)
        return NULL;
    for (uint32_t i = 0; i < walk->depth; i++) {
        if (!piano__python_is(walk->pcs[i]))
            tell_module(l, walk->pcs[i] - 1, generation);
    }
    struct piano__stack *s = room(&l->stacks, PIANO_CHUNK_STACKS, bytes);
    if (!s)
        return NULL;
    uint32_t number = __atomic_add_fetch(&all.stacks, 1, __ATOMIC_RELAXED);
    *s = (struct piano__stack){.bytes = bytes,
                               .id = PIANO_CPU_STACK + number,
                               .flags = walk->flags,
                               .depth = walk->depth,
                               .generation = PIANO_CPU_STACK + generation,
                               .hash = hash};
    memcpy(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]);
    piano__log_commit(&l->stacks, bytes);
    return s;
}

/* Returns the number of the stack, and adds it if it is new. Returns 0 if there is no room for
 * it. */
static uint32_t intern(struct lane *l, const struct piano__walk *walk)
{
    /* Pairs with the release in piano__cpu_samples_unloaded(). */
    uint32_t generation = __atomic_load_n(&all.generation, __ATOMIC_ACQUIRE);
    uint64_t hash = hash_of(walk, generation);
    struct piano__stack *fresh = NULL;
    if (walk->depth == 0)
        return 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        struct piano__stack **place = &all.index[((uint32_t)(hash >> 32) + i) % PLACES];
        /* Pairs with the release part of the CAS below: the stack is complete. */
        struct piano__stack *s = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!s) {
            fresh = fresh ? fresh : write_stack(l, walk, hash, generation);
            if (!fresh)
                return 0;
            if (__atomic_compare_exchange_n(place, &s, fresh, false, __ATOMIC_RELEASE,
                                            __ATOMIC_ACQUIRE))
                return fresh->id;
        }
        if (is_same(s, walk, hash, generation))
            return s->id;
    }
    return 0;
}

/* Samples -------------------------------------------------------------------------------------- */

static void tell_thread(struct lane *l, struct piano__cpu_thread *t, uint32_t pid, uint64_t now)
{
    const uint32_t bytes = sizeof(struct piano__thread_record);
    char name[sizeof t->name] = "";
    prctl(PR_GET_NAME, name);
    name[sizeof name - 1] = '\0';
    if (t->samples > 1 && strcmp(name, t->name) == 0)
        return;
    struct piano__thread_record *record = room(&l->threads, PIANO_CHUNK_THREADS, bytes);
    if (!record)
        return;
    memcpy(t->name, name, sizeof t->name);
    *record =
        (struct piano__thread_record){.bytes = bytes, .tid = t->tid, .pid = pid, .at_ns = now};
    memcpy(record->name, name, strlen(name));
    piano__log_commit(&l->threads, bytes);
}

/* A thread may get its name late, so it is read at its first, second, fourth sample, and so on. */
static bool is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static bool put(struct lane *l, struct piano__cpu_thread *t, uint64_t ns)
{
    const uint32_t bytes = sizeof(struct piano__sample);
    uint64_t now = (uint64_t)piano__monotonic_ns();
    uint32_t pid = piano__recording.view.header->pid;
    int cpu = sched_getcpu();
    piano__python_merge(&t->walk, &l->python);
    uint32_t stack = intern(l, &t->walk);
    t->samples++;
    if (is_power_of_two(t->samples))
        tell_thread(l, t, pid, now);
    struct piano__sample *s = room(&l->samples, PIANO_CHUNK_SAMPLES, bytes);
    if (!s)
        return false;
    *s = (struct piano__sample){.bytes = bytes,
                                .kind = PIANO_SAMPLE_CPU,
                                .tid = t->tid,
                                .pid = pid,
                                .at_ns = now,
                                .value = ns,
                                .stack = stack,
                                .cpu = cpu < 0 ? 0 : (uint32_t)cpu};
    piano__log_commit(&l->samples, bytes);
    return true;
}

void piano__cpu_samples_put(struct piano__cpu_thread *t, uint64_t ns)
{
    if (piano__control_is_ended())
        return;
    struct piano__trace *stats = piano__trace_stats();
    struct lane *l = take_lane();
    bool is_kept = l && put(l, t, ns);
    if (l)
        /* Pairs with the acquire in take_lane(). */
        __atomic_store_n(&l->busy, 0, __ATOMIC_RELEASE);
    piano__trace_add(is_kept ? &stats->samples : &stats->samples_lost, 1);
    if (is_kept)
        piano__trace_add(&stats->sampled_ns, ns);
    if (is_kept && !(t->walk.flags & (PIANO_STACK_LOST | PIANO_STACK_FULL)))
        piano__trace_add(&stats->samples_unwound, 1);
}
