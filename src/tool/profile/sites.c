/* Chooses the frame of a stack that is the site, and groups stacks by it.
 *
 * The innermost frame is often not the cause: it is `operator new`, a growing vector, strdup, or
 * the parser in a library. The site is the innermost frame of the highest origin in the stack
 * (origin.h): the nearest frame in the user's own code, if the stack has one.
 *
 * In a stack with Python functions, native code of the interpreter and native code without line
 * information (most extensions) is skipped too. The site is then the Python line that called it.
 * See docs/python.md.
 *
 * Sites are also distinguished by their caller, so that unknown wrappers do not collect all memory
 * in one row. Wrappers that the recording itself shows to be such are skipped: the sites are made
 * again without them (wrappers.c). */
#include "tool/profile/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/profile/origin.h"
#include "tool/profile/python.h"
#include "tool/util/order.h"
#include "tool/util/say.h"

/* ---- grouping ---- */

/* The identity of a site, and the stack it comes from. */
struct claim {
    struct symbol_frame frame;
    const char *caller;
    bool mmap;
    uint32_t stack;
};

/* Strings are shared: equal names are one pointer. */
static int compare_key(const struct claim *x, const struct claim *y)
{
    const struct symbol_frame *f = &x->frame, *g = &y->frame;
    return ORDER((uintptr_t)f->function, (uintptr_t)g->function)
        ?: ORDER((uintptr_t)f->file, (uintptr_t)g->file)
        ?: ORDER((uintptr_t)f->module, (uintptr_t)g->module)
        ?: ORDER(f->line, g->line)
        ?: ORDER(x->mmap, y->mmap)
        ?: ORDER((uintptr_t)x->caller, (uintptr_t)y->caller);
}

static int compare_claims(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    return compare_key(x, y) ?: ORDER(x->stack, y->stack);
}

static bool has_python(const struct symbol_frame *const *frames, size_t count)
{
    while (count-- > 0)
        if (frames[count]->python)
            return true;
    return false;
}

/* Native code called by a Python function that is of no use to the reader: code of the
 * interpreter, or without a line. */
static bool is_beneath(const struct symbol_frame *frame)
{
    return !frame->python && (python_is_interpreter(frame) || !frame->file);
}

size_t sites_caller(const struct symbol_frame *const *frames, size_t count, size_t at)
{
    const char *function = frames[at]->function;
    unsigned least = frames[at]->origin > ORIGIN_STANDARD ? ORIGIN_LIBRARY : ORIGIN_STANDARD;
    while (++at < count && (frames[at]->function == function || frames[at]->origin < least))
        ;
    return at;
}

/* Index of the first frame outside of all wrappers. What a wrapper calls is a part of it, such as
 * the functions without names that palloc calls. 0 if there is nothing outside. */
static size_t outside_wrappers(const struct symbol_frame *const *frames, size_t count)
{
    size_t at = count;
    while (at > 0 && frames[at - 1]->origin != ORIGIN_WRAPPER)
        at--;
    return at < count ? at : 0;
}

/* The origin of the frame AT in its stack. Python code that was made from a text ("<string>")
 * belongs to the function that ran it: namedtuple and dataclasses make such code. */
static int origin_in(const struct symbol_frame *const *frames, size_t count, size_t at)
{
    const struct symbol_frame *f = frames[at];
    while (f->python && f->file && *f->file == '<' && f->origin == ORIGIN_OWN && ++at < count)
        f = frames[at]->python ? frames[at] : f;
    return f->origin;
}

/* Index of the frame that is the site. */
static size_t site_of(const struct profile *p, const struct symbol_frame *const *frames,
                      size_t count)
{
    bool python = has_python(frames, count);
    size_t best = p->skip.none ? 0 : outside_wrappers(frames, count);
    int highest = -1;
    for (size_t i = best; i < count && highest < ORIGIN_OWN; i++) {
        int origin =
            python && is_beneath(frames[i]) ? ORIGIN_PLUMBING : origin_in(frames, count, i);
        if (origin > highest) {
            highest = origin;
            best = i;
        }
    }
    return best;
}

/* Remembers, for the notes below a table, a wrapper and a library inside of the site at AT. */
static void note_skipped(struct profile *p, const struct symbol_frame *const *frames, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (frames[i]->origin == ORIGIN_WRAPPER && !p->wrapper)
            p->wrapper = frames[i]->function;
        if (frames[i]->origin == ORIGIN_LIBRARY && !p->library)
            p->library = frames[i]->function;
    }
}

static struct claim claim_of(struct profile *p, uint32_t stack, const struct symbol_frame **frames)
{
    size_t count = profile_frames(p, stack, frames), at = site_of(p, frames, count);
    size_t caller = sites_caller(frames, count, at);
    note_skipped(p, frames, at);
    p->stacks[stack].site_frame = (uint32_t)at;
    p->stacks[stack].caller_frame = caller < count ? (uint32_t)caller : PROFILE_NO_FRAME;
    return (struct claim){.frame = *frames[at],
                          .caller = caller < count ? frames[caller]->function : NULL,
                          .mmap = (p->rec.stacks[stack].flags & PIANO_STACK_MMAP) != 0,
                          .stack = stack};
}

static void add_to_site(struct profile *p, const struct claim *c, size_t at, bool new)
{
    if (new)
        p->sites[p->site_count++] = (struct heap_site){.function = c->frame.function,
                                                       .file = c->frame.file,
                                                       .module = c->frame.module,
                                                       .line = c->frame.line,
                                                       .caller = c->caller,
                                                       .mmap = c->mmap,
                                                       .first = (uint32_t)at};
    struct heap_site *site = &p->sites[p->site_count - 1];
    recording_sum_add(&site->sum, &p->rec.stacks[c->stack].sum);
    site->stacks++;
    p->site_stacks[at] = c->stack;
    p->stacks[c->stack].site = (uint32_t)(p->site_count - 1);
}

/* Groups the stacks with the origins that the frames have now. */
static int group(struct profile *p, struct claim *claims, const struct symbol_frame **frames)
{
    size_t count = 0;
    p->site_count = 0;
    p->wrapper = p->library = NULL;
    for (uint32_t i = 0; i < p->rec.stack_count; i++)
        if (profile_has_site(p, i))
            claims[count++] = claim_of(p, i, frames);
    free(p->sites);
    free(p->site_stacks);
    p->sites = calloc(count + 1, sizeof(*p->sites));
    p->site_stacks = calloc(count + 1, sizeof(*p->site_stacks));
    if (!p->sites || !p->site_stacks)
        return -ENOMEM;
    if (count)
        qsort(claims, count, sizeof(*claims), compare_claims);
    for (size_t i = 0; i < count; i++)
        add_to_site(p, &claims[i], i, i == 0 || compare_key(&claims[i - 1], &claims[i]) != 0);
    return 0;
}

/* Wrappers may call each other: each round finds those that call the ones found before. */
enum { ROUNDS = 3 };

int sites_make(struct profile *p)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct claim *claims = calloc(p->rec.stack_count + 1, sizeof(*claims));
    int err = frames && claims ? 0 : -ENOMEM;
    for (int round = 0, found = 1; round <= ROUNDS && found > 0 && err == 0; round++) {
        origin_set_all(p);
        err = group(p, claims, frames);
        found = err == 0 && round < ROUNDS && !p->skip.none ? wrappers_find(p, frames) : 0;
        err = found < 0 ? found : err;
    }
    free(claims);
    free(frames);
    return err;
}

int profile_share_wrappers(struct profile sides[2])
{
    size_t before[2] = {sides[0].found.count, sides[1].found.count};
    int err = 0;
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < before[1 - s]; i++)
            wrappers_add(&sides[s], sides[1 - s].found.names[i]);
    for (int s = 0; s < 2 && err == 0; s++)
        if (sides[s].found.count > before[s])
            err = sites_make(&sides[s]);
    return err;
}

/* ---- order ---- */

struct ranked {
    double figure;
    const struct heap_site *site;
    uint32_t index;
};

/* Equal figures are sorted by name, so that the same file always gives the same text. */
static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    const struct heap_site *s = x->site, *t = y->site;
    return ORDER(y->figure, x->figure)
        ?: strcmp(s->function, t->function)
        ?: compare_texts(s->file, t->file)
        ?: ORDER(s->line, t->line)
        ?: compare_texts(s->caller, t->caller)
        ?: strcmp(s->module, t->module)
        ?: ORDER(s->mmap, t->mmap);
}

uint32_t *heap_sorted(const struct profile *p, enum figure by, size_t *count)
{
    struct ranked *ranked = calloc(p->site_count + 1, sizeof(*ranked));
    uint32_t *out = ranked ? calloc(p->site_count + 1, sizeof(*out)) : NULL;
    *count = 0;
    for (uint32_t i = 0; out && i < p->site_count; i++) {
        double figure = figure_value(&p->sites[i].sum, by);
        if (figure > 0)
            ranked[(*count)++] = (struct ranked){figure, &p->sites[i], i};
    }
    if (*count)
        qsort(ranked, *count, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; i < *count; i++)
        out[i] = ranked[i].index;
    free(ranked);
    return out;
}

/* ---- text ---- */

char *profile_safe_name(const char *function, bool mmap)
{
    static const char mark[] = " (mmap)";
    size_t size = strlen(function) * 8 + 1; /* the longest result of `say_safe` */
    char *safe = malloc(size + sizeof(mark));
    if (safe)
        say_safe(safe, size, function);
    if (safe && mmap)
        memcpy(safe + strlen(safe), mark, sizeof(mark));
    return safe;
}

static double figure_of_stack(const void *figure, const struct profile *p, uint32_t stack)
{
    return figure_value(&p->rec.stacks[stack].sum, *(const enum figure *)figure);
}

uint32_t heap_leader_by(const struct profile *p, const struct heap_site *site, stack_figure *of,
                        const void *ctx)
{
    const uint32_t *stacks = &p->site_stacks[site->first];
    uint32_t leader = stacks[0];
    double most = of(ctx, p, leader);
    for (uint32_t i = 1; i < site->stacks; i++) {
        double figure = of(ctx, p, stacks[i]);
        if (figure < most || (!(figure > most) && p->rec.stacks[stacks[i]].sum.allocated_bytes <=
                                                      p->rec.stacks[leader].sum.allocated_bytes))
            continue;
        leader = stacks[i];
        most = figure;
    }
    return leader;
}

uint32_t heap_leader(const struct profile *p, const struct heap_site *site, enum figure by)
{
    return heap_leader_by(p, site, figure_of_stack, &by);
}

size_t heap_callers(const struct profile *p, uint32_t stack, const char *callers[HEAP_CALLERS])
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    size_t count = frames ? profile_frames(p, stack, frames) : 0, found = 0;
    size_t at = p->stacks[stack].site_frame;
    while (found < HEAP_CALLERS && at < count && (at = sites_caller(frames, count, at)) < count)
        callers[found++] = frames[at]->function;
    free(frames);
    return found;
}

char *heap_callers_text(const struct profile *p, const struct heap_site *site, uint32_t stack)
{
    const char *callers[HEAP_CALLERS];
    size_t count = heap_callers(p, stack, callers);
    struct buf b = {0};
    for (size_t i = 0; i < count; i++) {
        char *name = profile_safe_name(callers[i], false);
        buf_printf(&b, "%s%s", i ? " < " : "", name ? name : "?");
        free(name);
    }
    if (site->stacks > 1)
        buf_printf(&b, "%s(%u ways)", count ? " " : "", site->stacks);
    buf_puts(&b, "");
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
