/* A recording with names. Every distinct address is resolved once, and stacks become lists
 * of resolved addresses. The symbolizer shares its strings (equal strings are one pointer), so
 * functions are compared by pointer from here on. */
#include "tool/profile/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "tool/load/family.h"
#include "tool/load/own.h"
#include "tool/profile/jitted.h"
#include "tool/profile/kept.h"
#include "tool/profile/python.h"
#include "tool/profile/sites.h"
#include "tool/symbol/kernel.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"

const char *const figure_names[FIGURES] = {"live", "allocated", "peak", "churn", "cpu", "off-cpu"};

const struct symbol_frame profile_no_stack = {.function = "(no stack)", .module = ""};

double figure_value(const struct recording_sum *sum, enum figure by)
{
    switch (by) {
    case FIGURE_ALLOCATED:
        return sum->allocated_bytes;
    case FIGURE_PEAK:
        return sum->peak_bytes;
    case FIGURE_CHURN:
        return recording_churn(sum);
    case FIGURE_CPU:
        return (double)sum->cpu_ns;
    case FIGURE_OFF_CPU:
        return (double)sum->off_ns;
    default:
        return sum->live_bytes;
    }
}

int64_t figure_whole(double v)
{
    return fabs(v) < 9e18 ? (int64_t)llround(v) : v > 0 ? INT64_MAX : -INT64_MAX;
}

const char *figure_bytes(char *text, double v)
{
    return units_bytes(text, figure_whole(v));
}

const char *figure_text(char *text, double figure, enum figure by)
{
    return by < FIGURES_OF_HEAP ? figure_bytes(text, figure)
                                : units_time(text, figure_whole(figure));
}

/* ---- addresses ---- */

static int resolve(struct profile *p, struct profile_pc *pc)
{
    const struct recording_module *m = pc->module;
    struct symbol_module module;
    const struct symbol_frame *frames = NULL;
    if (kernel_is(pc->pc) || piano__python_is(pc->pc)) {
        pc->frames = malloc(sizeof(*pc->frames));
        pc->count = pc->frames != NULL;
        if (pc->frames && !kernel_is(pc->pc))
            *pc->frames = python_resolve(&p->rec, pc->pc);
        else if (pc->frames && !kept_kernel(&p->rec, pc->pc, pc->frames))
            *pc->frames = kernel_resolve(pc->pc);
        return pc->frames ? 0 : -ENOMEM;
    }
    if (m)
        module = kept_module(m);
    size_t count = symbols_resolve(p->symbols, m ? &module : NULL, pc->pc, &frames);
    size_t skip = count > PROFILE_MAX_INLINES ? count - PROFILE_MAX_INLINES : 0;
    pc->frames = malloc((count - skip) * sizeof(*frames));
    if (!pc->frames)
        return -ENOMEM;
    pc->count = (uint32_t)(count - skip);
    memcpy(pc->frames, frames + skip, pc->count * sizeof(*frames));
    return 0;
}

/* Copies FRAME. */
static int set_frame(struct profile_pc *pc, const struct symbol_frame *frame)
{
    pc->frames = malloc(sizeof(*pc->frames));
    pc->count = pc->frames != NULL;
    if (pc->frames)
        *pc->frames = *frame;
    return pc->frames ? 0 : -ENOMEM;
}

/* Whether PC is MODULE's PC, or JIT code with the name MADE. */
static bool is_same(const struct profile_pc *x, uint64_t pc, const struct recording_module *module,
                    const struct symbol_frame *made)
{
    return x->pc == pc && x->module == module &&
           (!made->function ||
            (x->frames->function == made->function && x->frames->line == made->line));
}

/* Index of the resolved call before return address PC of STACK; or negative errno. */
static int64_t address(struct profile *p, uint32_t stack, uint64_t pc, uint64_t generation)
{
    struct symbol_frame made = {.function = NULL};
    pc -= pc > 0 && !piano__python_is(pc);
    const struct recording_module *module = recording_module_of(&p->rec, pc, generation);
    if (jitted_is(module, pc, generation)) {
        made = jitted_resolve(p->jitted, stack, pc);
        module = NULL;
    }
    const uint64_t parts[] = {pc, (uintptr_t)module, (uintptr_t)made.function, made.line};
    uint64_t key = map_hash(parts, sizeof(parts));
    uint32_t at;
    for (; (at = map_find(&p->pc_index, key)) != MAP_NONE; key++)
        if (is_same(&p->pcs[at], pc, module, &made))
            return at;
    if (p->pc_count >= PROFILE_MAX_PCS) /* limit: the rest share one entry */
        return 0;
    if (VEC_ROOM(p->pcs, p->pc_count, p->pc_cap) != 0)
        return -ENOMEM;
    struct profile_pc *new = &p->pcs[p->pc_count];
    *new = (struct profile_pc){.pc = pc, .module = module};
    if ((made.function ? set_frame(new, &made) : resolve(p, new)) != 0)
        return -ENOMEM;
    at = (uint32_t)p->pc_count++;
    return map_put(&p->pc_index, key, at) != 0 ? -ENOMEM : (int64_t)at;
}

int profile_name_stack(struct profile *p, uint32_t stack)
{
    const struct recording_stack *from = &p->rec.stacks[stack];
    struct profile_stack *to = &p->stacks[stack];
    if (to->pcs)
        return 0;
    to->pcs = calloc(from->depth + 1, sizeof(*to->pcs));
    if (!to->pcs)
        return -ENOMEM;
    say_progress_again();
    for (uint32_t k = 0; k < from->depth; k++) {
        int64_t at = address(p, stack, from->pcs[k], from->generation);
        if (at < 0)
            return (int)at;
        to->pcs[k] = (uint32_t)at;
        to->depth = k + 1;
    }
    to->depth = python_trim(p, to->pcs, to->depth);
    return 0;
}

size_t profile_frames(const struct profile *p, uint32_t stack, const struct symbol_frame **frames)
{
    const struct profile_stack *s = &p->stacks[stack];
    size_t count = 0;
    for (uint32_t i = 0; i < s->depth; i++) {
        const struct profile_pc *pc = &p->pcs[s->pcs[i]];
        for (uint32_t k = 0; k < pc->count; k++)
            frames[count++] = &pc->frames[k];
    }
    if (count == 0)
        frames[count++] = &profile_no_stack;
    return count;
}

const char *profile_program(const struct profile *p)
{
    return paths_base(p->rec.header.program);
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
    *error = (struct run_error){.text = ""};
    snprintf(error->text, sizeof(error->text), "%s: not enough memory to name its stacks",
             say_safe(safe, sizeof(safe), path));
    return -ENOMEM;
}

unsigned profile_instruments(const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    unsigned found = 0;
    if ((h->flags & PIANO_REC_HAS_HEAP || h->stats.samples > 0) && !own_is_hidden(h))
        found |= PROFILE_HEAP;
    if (h->flags & PIANO_REC_HAS_CPU || h->trace.samples > 0)
        found |= PROFILE_CPU;
    if (h->flags & PIANO_REC_HAS_EVENTS || h->trace.events > 0)
        found |= PROFILE_EVENTS;
    return found;
}

int profile_peek(struct profile *p, const char *path, struct run_error *error)
{
    *p = (struct profile){.pc_count = 0};
    int err = recording_peek(&p->rec, path, error);
    p->instruments = err ? 0 : profile_instruments(&p->rec);
    return err;
}

int profile_peek_all(struct profile *p, const char *path, const char *process,
                     struct run_error *error)
{
    *p = (struct profile){.pc_count = 0};
    int err = family_peek(&p->rec, path, process, error);
    p->instruments = err ? 0 : profile_instruments(&p->rec);
    return err;
}

void profile_share(struct profile *p, struct symbols *symbols)
{
    p->symbols = symbols;
    p->shares_symbols = true;
}

struct symbols *profile_names_new(void)
{
    return symbols_new();
}

void profile_names_free(struct symbols *names)
{
    symbols_free(names);
}

int profile_read_new(struct profile *p, struct recording_seen *seen, struct run_error *error)
{
    char safe[300];
    say_progress("reading %s", say_safe(safe, sizeof(safe), p->rec.path));
    int err = seen ? recording_read_new(&p->rec, seen, error) : recording_read(&p->rec, error);
    if (err) {
        say_progress_done();
        return err;
    }
    if (p->rec.symbols || !p->shares_symbols) {
        p->symbols = symbols_new();
        p->shares_symbols = false;
    }
    p->jitted = jitted_new(&p->rec);
    err = p->jitted ? jitted_split(p->jitted, &p->rec) : -ENOMEM;
    p->stacks = calloc(p->rec.stack_count + 1, sizeof(*p->stacks));
    if (!p->symbols || !p->stacks || err) {
        say_progress_done();
        out_of_memory(error, p->rec.path);
        profile_close(p);
        return -ENOMEM;
    }
    symbols_progress(p->symbols, progress, NULL);
    kept_give(&p->rec, p->symbols);
    return 0;
}

int profile_read(struct profile *p, struct run_error *error)
{
    return profile_read_new(p, NULL, error);
}

int profile_open_range(struct profile *p, const char *path, const char *process,
                       const struct range_asked *range, struct run_error *error)
{
    int err = profile_peek_all(p, path, process, error);
    p->rec.asked = *range;
    return err ? err : profile_read(p, error);
}

int profile_open(struct profile *p, const char *path, struct run_error *error)
{
    int err = profile_peek(p, path, error);
    return err ? err : profile_read(p, error);
}

bool profile_has_site(const struct profile *p, uint32_t stack)
{
    const struct recording_sum *sum = &p->rec.stacks[stack].sum;
    return sum->samples > 0 || sum->live_samples > 0;
}

int profile_make_sites(struct profile *p, const struct heap_skip *skip, struct run_error *error)
{
    int err = 0;
    if (skip)
        p->skip = *skip;
    say_progress("naming %zu stacks", p->rec.stack_count);
    for (uint32_t i = 0; i < p->rec.stack_count && err == 0; i++)
        if (profile_has_site(p, i))
            err = profile_name_stack(p, i);
    if (err == 0)
        err = sites_make(p);
    say_progress_done();
    return err ? out_of_memory(error, p->rec.path) : 0;
}

void profile_close(struct profile *p)
{
    for (size_t i = 0; p->stacks && i < p->rec.stack_count; i++)
        free(p->stacks[i].pcs);
    for (size_t i = 0; i < p->pc_count; i++)
        free(p->pcs[i].frames);
    map_release(&p->pc_index);
    free(p->stacks);
    free(p->pcs);
    free(p->sites);
    free(p->site_stacks);
    jitted_free(p->jitted);
    for (size_t i = 0; i < p->found.count; i++)
        free(p->found.names[i]);
    if (p->symbols && !p->shares_symbols)
        symbols_free(p->symbols);
    recording_unload(&p->rec);
    *p = (struct profile){.pc_count = 0};
}
