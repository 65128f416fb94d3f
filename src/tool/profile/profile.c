/* A heap recording with names. Every distinct address is resolved once, and stacks become lists
 * of resolved addresses. The symbolizer shares its strings (equal strings are one pointer), so
 * functions are compared by pointer from here on. */
#include "tool/profile/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/python.h"
#include "tool/profile/kept.h"
#include "tool/symbol/kernel.h"
#include "tool/profile/python.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

const char *const heap_by_names[HEAP_ALL_BYS] = {"live",  "allocated", "peak",
                                                 "churn", "cpu",       "off-cpu"};

static const struct symbol_frame no_stack = {.function = "(no stack)", .module = ""};

double heap_figure(const struct recording_sum *sum, enum heap_by by)
{
    switch (by) {
    case HEAP_ALLOCATED:
        return sum->allocated_bytes;
    case HEAP_PEAK:
        return sum->peak_bytes;
    case HEAP_CHURN:
        return recording_churn(sum);
    case HEAP_CPU:
        return (double)sum->cpu_ns;
    case HEAP_OFF_CPU:
        return (double)sum->off_ns;
    default:
        return sum->live_bytes;
    }
}

int64_t heap_whole(double v)
{
    return fabs(v) < 9e18 ? (int64_t)llround(v) : v > 0 ? INT64_MAX : -INT64_MAX;
}

const char *heap_bytes(char *text, double v)
{
    return units_bytes(text, heap_whole(v));
}

const char *heap_figure_text(char *text, double figure, enum heap_by by)
{
    return by < HEAP_BYS ? heap_bytes(text, figure) : units_time(text, heap_whole(figure));
}

/* ---- addresses ---- */

/* Open addressing from (pc, module) to an index in `pcs`, + 1; see `struct set` in the reader of
 * stacks. */
struct profile_addresses {
    uint32_t *slots;
    size_t size;
    size_t cap; /* capacity of `pcs` */
    uint64_t seed;
};

static size_t hash_of(const struct profile_addresses *a, uint64_t pc,
                      const struct recording_module *module)
{
    uint64_t h = (a->seed ^ pc) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 32 ^ (uintptr_t)module) * 0xc4ceb9fe1a85ec53u;
    return (size_t)(h ^ h >> 29) & (a->size - 1);
}

static int grow(struct profile_addresses *a, const struct profile *heap)
{
    if (heap->pc_count * 2 < a->size)
        return 0;
    struct profile_addresses more = {
        .size = a->size ? a->size * 2 : 1024, .cap = a->cap, .seed = a->seed};
    more.slots = calloc(more.size, sizeof(*more.slots));
    if (!more.slots)
        return -ENOMEM;
    for (size_t i = 0; i < heap->pc_count; i++) {
        size_t at = hash_of(&more, heap->pcs[i].pc, heap->pcs[i].module);
        while (more.slots[at])
            at = (at + 1) & (more.size - 1);
        more.slots[at] = (uint32_t)i + 1;
    }
    free(a->slots);
    *a = more;
    return 0;
}

static int resolve(struct profile *heap, struct profile_pc *pc)
{
    const struct recording_module *m = pc->module;
    struct symbol_module module;
    const struct symbol_frame *frames = NULL;
    if (kernel_is(pc->pc) || piano__python_is(pc->pc)) {
        pc->frames = malloc(sizeof(*pc->frames));
        pc->count = pc->frames != NULL;
        if (pc->frames && !kernel_is(pc->pc))
            *pc->frames = python_resolve(&heap->rec, pc->pc);
        else if (pc->frames && !kept_kernel(&heap->rec, pc->pc, pc->frames))
            *pc->frames = kernel_resolve(pc->pc);
        return pc->frames ? 0 : -ENOMEM;
    }
    if (m)
        module = kept_module(m);
    size_t count = symbols_resolve(heap->symbols, m ? &module : NULL, pc->pc, &frames);
    size_t skip = count > PROFILE_MAX_INLINES ? count - PROFILE_MAX_INLINES : 0;
    pc->frames = malloc((count - skip) * sizeof(*frames));
    if (!pc->frames)
        return -ENOMEM;
    pc->count = (uint32_t)(count - skip);
    memcpy(pc->frames, frames + skip, pc->count * sizeof(*frames));
    return 0;
}

/* Index of the resolved call before return address PC; or negative errno. */
static int64_t address(struct profile *heap, struct profile_addresses *a, uint64_t pc,
                       uint64_t generation)
{
    pc -= pc > 0 && !piano__python_is(pc);
    const struct recording_module *module = recording_module_of(&heap->rec, pc, generation);
    int err = grow(a, heap);
    if (err)
        return err;
    size_t at = hash_of(a, pc, module);
    for (; a->slots[at]; at = (at + 1) & (a->size - 1)) {
        const struct profile_pc *known = &heap->pcs[a->slots[at] - 1];
        if (known->pc == pc && known->module == module)
            return a->slots[at] - 1;
    }
    if (heap->pc_count >= PROFILE_MAX_PCS) /* limit: the rest share one entry */
        return 0;
    if (heap->pc_count == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 1024;
        struct profile_pc *more = realloc(heap->pcs, cap * sizeof(*more));
        if (!more)
            return -ENOMEM;
        heap->pcs = more;
        a->cap = cap;
    }
    heap->pcs[heap->pc_count] = (struct profile_pc){.pc = pc, .module = module};
    err = resolve(heap, &heap->pcs[heap->pc_count]);
    if (err)
        return err;
    a->slots[at] = (uint32_t)++heap->pc_count;
    return (int64_t)heap->pc_count - 1;
}

int profile_name_stack(struct profile *heap, uint32_t stack)
{
    const struct recording_stack *from = &heap->rec.stacks[stack];
    struct profile_stack *to = &heap->stacks[stack];
    if (to->pcs)
        return 0;
    to->pcs = calloc(from->depth + 1, sizeof(*to->pcs));
    if (!to->pcs)
        return -ENOMEM;
    say_progress_again();
    for (uint32_t k = 0; k < from->depth; k++) {
        int64_t at = address(heap, heap->addresses, from->pcs[k], from->generation);
        if (at < 0)
            return (int)at;
        to->pcs[k] = (uint32_t)at;
        to->depth = k + 1;
    }
    to->depth = python_trim(heap, to->pcs, to->depth);
    return 0;
}

static int name_stacks(struct profile *heap)
{
    int err = 0;
    say_progress("naming %zu stacks", heap->rec.stack_count);
    for (uint32_t i = 0; i < heap->rec.stack_count && err == 0; i++)
        if (heap->rec.stacks[i].sum.samples > 0 || heap->rec.stacks[i].sum.live_samples > 0)
            err = profile_name_stack(heap, i);
    return err;
}

size_t profile_frames(const struct profile *heap, uint32_t stack,
                      const struct symbol_frame **frames)
{
    const struct profile_stack *s = &heap->stacks[stack];
    size_t count = 0;
    for (uint32_t i = 0; i < s->depth; i++) {
        const struct profile_pc *pc = &heap->pcs[s->pcs[i]];
        for (uint32_t k = 0; k < pc->count; k++)
            frames[count++] = &pc->frames[k];
    }
    if (count == 0)
        frames[count++] = &no_stack;
    return count;
}

const char *profile_program(const struct profile *heap)
{
    return paths_base(heap->rec.header.program);
}

const char *profile_name_within(const char *name, const char *program)
{
    size_t len = strlen(program);
    bool unnamed = len > 0 && strncmp(name, program, len) == 0 && !strncmp(name + len, "+0x", 3);
    return unnamed ? name + len : name;
}

/* ---- loading ---- */

static void progress(void *ctx, const char *what)
{
    (void)ctx;
    say_progress("%s", what);
}

static int out_of_memory(struct run_error *error, const char *path)
{
    char safe[300];
    snprintf(error->text, sizeof(error->text), "%s: not enough memory to name its stacks",
             say_safe(safe, sizeof(safe), path));
    return -ENOMEM;
}

int profile_open(struct profile *heap, const char *path, struct run_error *error)
{
    char safe[300];
    *heap = (struct profile){.pc_count = 0};
    say_progress("reading %s", say_safe(safe, sizeof(safe), path));
    int err = recording_load(&heap->rec, path, error);
    if (err) {
        say_progress_done();
        return err;
    }
    heap->symbols = symbols_new();
    heap->addresses = calloc(1, sizeof(*heap->addresses));
    heap->stacks = calloc(heap->rec.stack_count + 1, sizeof(*heap->stacks));
    if (!heap->symbols || !heap->addresses || !heap->stacks) {
        say_progress_done();
        profile_close(heap);
        return out_of_memory(error, path);
    }
    if (getrandom(&heap->addresses->seed, sizeof(heap->addresses->seed), GRND_NONBLOCK) < 0)
        heap->addresses->seed = (uintptr_t)heap;
    symbols_progress(heap->symbols, progress, NULL);
    kept_give(&heap->rec, heap->symbols);
    return 0;
}

int heap_load(struct profile *heap, const char *path, struct run_error *error)
{
    int err = profile_open(heap, path, error);
    if (err)
        return err;
    err = name_stacks(heap);
    if (err == 0)
        err = heap_make_sites(heap);
    say_progress_done();
    if (err) {
        out_of_memory(error, path);
        profile_close(heap);
    }
    return err;
}

void profile_close(struct profile *heap)
{
    for (size_t i = 0; heap->stacks && i < heap->rec.stack_count; i++)
        free(heap->stacks[i].pcs);
    for (size_t i = 0; i < heap->pc_count; i++)
        free(heap->pcs[i].frames);
    if (heap->addresses)
        free(heap->addresses->slots);
    free(heap->addresses);
    free(heap->stacks);
    free(heap->pcs);
    free(heap->sites);
    if (heap->symbols)
        symbols_free(heap->symbols);
    recording_unload(&heap->rec);
    *heap = (struct profile){.pc_count = 0};
}
