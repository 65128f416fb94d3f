/* Chooses the frame of a stack that is the site.
 *
 * The innermost frame is often not the cause: it is `operator new`, a growing vector, or strdup.
 * A frame is plumbing, and is skipped, if
 *   - its module is the C library, the dynamic linker, the C++ library, an allocator, or piano, or
 *   - its function is in namespace std, __gnu_cxx or __cxxabiv1, or is `operator new`, or has the
 *     name of a function of the malloc family (statically linked programs).
 * In a stack with Python functions, native code of the interpreter and native code without line
 * information (most extensions) is skipped too. The site is then the Python line that called it.
 * See docs/python.md.
 *
 * The site is the first frame that is neither plumbing nor a wrapper like xmalloc
 * (`wrappers.c`). If there is none, it is the first frame that is not plumbing, otherwise the
 * innermost frame. Sites are also distinguished by their caller, so that unknown wrappers do not
 * collect all memory in one row. */
#include "tool/profile/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/profile/python.h"
#include "tool/util/order.h"
#include "tool/util/say.h"

static const char *const plumbing_modules[] = {
    "libc.so",     "libc-",       "libc.musl", "ld-linux",   "ld-musl",     "libstdc++.so",
    "libc++.so",   "libc++abi",   "libgcc_s",  "libpthread", "libpiano.so", "libjemalloc",
    "libtcmalloc", "libmimalloc", "libdl",     "libsupc++"};

static const char *const plumbing_functions[] = {
    "malloc",        "calloc",   "realloc",  "reallocarray",  "posix_memalign", "aligned_alloc",
    "memalign",      "valloc",   "pvalloc",  "strdup",        "strndup",        "__strdup",
    "__strndup",     "wcsdup",   "asprintf", "vasprintf",     "__asprintf",     "__vasprintf",
    "__libc_malloc", "getdelim", "getline",  "__getdelim",    "open_memstream", "realpath",
    "mmap",          "mmap64",   "__mmap",   "__libc_calloc", "__libc_realloc", "_start"};

static const char *const plumbing_prefixes[] = {
    "std::", "__gnu_cxx::", "__cxxabiv1::", "operator new"};

/* Start of the qualified name in a demangled one: after the return type, which template
 * instances have. */
const char *profile_qualified(const char *name)
{
    const char *start = name;
    int depth = 0;
    for (const char *p = name; *p; p++) {
        if (strncmp(p, "operator", 8) == 0 && depth == 0)
            break;
        if (*p == '<' || *p == '{')
            depth++;
        else if ((*p == '>' || *p == '}') && depth > 0)
            depth--;
        else if (*p == '(' && depth == 0 && strncmp(p, "(anonymous", 10) != 0)
            break;
        else if (*p == ' ' && depth == 0 && strncmp(p, " namespace)", 11) != 0)
            start = p + 1;
    }
    while (*start == '*' || *start == '&')
        start++;
    return start;
}

bool profile_is_plumbing(const struct symbol_frame *frame)
{
    if (frame->python)
        return false; /* whatever its name */
    for (size_t i = 0; i < sizeof(plumbing_modules) / sizeof(*plumbing_modules); i++)
        if (strncmp(frame->module, plumbing_modules[i], strlen(plumbing_modules[i])) == 0)
            return true;
    const char *name = profile_qualified(frame->function);
    for (size_t i = 0; i < sizeof(plumbing_prefixes) / sizeof(*plumbing_prefixes); i++)
        if (strncmp(name, plumbing_prefixes[i], strlen(plumbing_prefixes[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(plumbing_functions) / sizeof(*plumbing_functions); i++)
        if (strcmp(frame->function, plumbing_functions[i]) == 0)
            return true;
    return false;
}

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

static bool is_passed(const struct profile *p, const struct symbol_frame *frame)
{
    return profile_is_plumbing(frame) || heap_skip_is(&p->skip, frame);
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

/* The next frame outwards from AT that is another function and not skipped; COUNT if there is
 * none. */
static size_t caller_of(const struct profile *p, const struct symbol_frame *const *frames,
                        size_t count, size_t at)
{
    const char *function = frames[at]->function;
    while (++at < count && (frames[at]->function == function || is_passed(p, frames[at])))
        ;
    return at;
}

/* Index of the frame that is the site. */
static size_t site_of(struct profile *p, const struct symbol_frame *const *frames, size_t count)
{
    size_t own = 0, at;
    bool python = has_python(frames, count);
    while (own < count && (profile_is_plumbing(frames[own]) || (python && is_beneath(frames[own]))))
        own++;
    for (at = own; at < count && (is_passed(p, frames[at]) || (python && is_beneath(frames[at])));
         at++)
        ;
    if (at < count && at > own && !p->wrapper)
        p->wrapper = frames[own]->function;
    return at < count ? at : own < count ? own : 0;
}

static struct claim claim_of(struct profile *p, uint32_t stack, const struct symbol_frame **frames)
{
    size_t count = profile_frames(p, stack, frames), at = site_of(p, frames, count);
    size_t caller = caller_of(p, frames, count, at);
    p->stacks[stack].site_frame = (uint32_t)at;
    p->stacks[stack].caller_frame = caller < count ? (uint32_t)caller : PROFILE_NO_FRAME;
    return (struct claim){.frame = *frames[at],
                          .caller = caller < count ? frames[caller]->function : NULL,
                          .mmap = (p->rec.stacks[stack].flags & PIANO_STACK_MMAP) != 0,
                          .stack = stack};
}

static bool heavier(const struct recording_sum *a, const struct recording_sum *b)
{
    if (a->live_bytes > b->live_bytes || a->live_bytes < b->live_bytes)
        return a->live_bytes > b->live_bytes;
    return a->allocated_bytes > b->allocated_bytes;
}

static void add_to_site(struct profile *p, const struct claim *c, bool new)
{
    const struct recording_sum *sum = &p->rec.stacks[c->stack].sum;
    if (new)
        p->sites[p->site_count++] = (struct heap_site){.function = c->frame.function,
                                                       .file = c->frame.file,
                                                       .module = c->frame.module,
                                                       .line = c->frame.line,
                                                       .caller = c->caller,
                                                       .mmap = c->mmap,
                                                       .best = c->stack};
    struct heap_site *site = &p->sites[p->site_count - 1];
    recording_sum_add(&site->sum, sum);
    site->stacks++;
    if (heavier(sum, &p->rec.stacks[site->best].sum))
        site->best = c->stack;
    p->stacks[c->stack].site = (uint32_t)(p->site_count - 1);
}

int sites_make(struct profile *p)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct claim *claims = calloc(p->rec.stack_count + 1, sizeof(*claims));
    size_t count = 0;
    free(p->sites);
    p->site_count = 0;
    p->wrapper = NULL;
    for (uint32_t i = 0; frames && claims && i < p->rec.stack_count; i++)
        if (profile_has_site(p, i))
            claims[count++] = claim_of(p, i, frames);
    p->sites = calloc(count + 1, sizeof(*p->sites));
    bool fine = frames && claims && p->sites;
    if (fine && count)
        qsort(claims, count, sizeof(*claims), compare_claims);
    for (size_t i = 0; fine && i < count; i++)
        add_to_site(p, &claims[i], i == 0 || compare_key(&claims[i - 1], &claims[i]) != 0);
    free(claims);
    free(frames);
    return fine ? 0 : -ENOMEM;
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

char *heap_callers(const struct profile *p, const struct heap_site *site)
{
    enum { CALLERS = 2 };
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct buf b = {0};
    if (!frames)
        return NULL;
    size_t count = profile_frames(p, site->best, frames), shown = 0;
    size_t at = p->stacks[site->best].site_frame;
    while (shown < CALLERS && (at = caller_of(p, frames, count, at)) < count) {
        char *name = profile_safe_name(frames[at]->function, false);
        buf_printf(&b, "%s%s", shown++ ? " < " : "", name ? name : "?");
        free(name);
    }
    free(frames);
    if (site->stacks > 1)
        buf_printf(&b, "%s(%u ways)", shown ? " " : "", site->stacks);
    buf_puts(&b, "");
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
