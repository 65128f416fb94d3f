/* Recognises wrappers: functions of a program or library that only allocate memory for their
 * caller. Some names are built in; the user gives others as shell patterns. A pattern is matched
 * against the whole name and, for C++, also against the name without arguments and return type.
 *
 * Others are found in the recording. A wrapper passes sizes on: it has one way to the allocator and
 * is called by many functions, none of which dominates, and they ask for different sizes. A
 * constructor is called by many functions too, but its blocks all have one size. If a function has
 * a single caller, it is a part of that, and the caller may be the wrapper. */
#include "tool/profile/sites.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/origin.h"
#include "tool/util/order.h"

static const char *const known[] = {
    "xmalloc", "xcalloc", "xzalloc", "xrealloc", "xreallocarray", "xnmalloc", "xnrealloc",
    "x2realloc", "x2nrealloc", "xpalloc", "xmemdup*", "xstrdup", "xstrndup", "xcharalloc",
    "ximalloc", "xirealloc", "ximemdup*", "xasprintf", "xvasprintf", "g_malloc*", "g_try_malloc*",
    "g_realloc*", "g_try_realloc*", "g_slice_alloc*", "g_strdup*", "g_strndup", "g_memdup*",
    "sqlite3Malloc*", "sqlite3_malloc*", "sqlite3MemMalloc", "sqlite3MemRealloc", "sqlite3Realloc*",
    "sqlite3_realloc*", "sqlite3DbMalloc*", "sqlite3DbRealloc*", "sqlite3DbStr*Dup",
    "mallocWithAlarm", "dbMallocRawFinish", "dbReallocFinish", "jv_mem_*", "CRYPTO_malloc",
    "CRYPTO_zalloc", "CRYPTO_calloc", "CRYPTO_realloc*", "CRYPTO_clear_realloc", "CRYPTO_strdup",
    "CRYPTO_strndup", "CRYPTO_memdup", "PyMem_*", "_PyMem_*", "PyObject_Malloc", "PyObject_Calloc",
    "PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc",
    "pymalloc_alloc", "zmalloc*", "zcalloc*", "zrealloc*", "ztrymalloc*", "ztrycalloc*",
    "ztryrealloc*", "uv__malloc", "uv__calloc", "uv__realloc*", "uv__strdup", "ngx_alloc",
    "ngx_calloc", "ngx_memalign", "av_malloc*", "av_realloc*", "objspace_xmalloc*", "ruby_xmalloc*",
    "ruby_xrealloc*",
    /* nginx, apr, talloc, PHP, Lua */
    "ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc", "ngx_create_pool", "apr_palloc*", "apr_pcalloc*",
    "apr_pstr*dup*", "apr_pool_create*", "_talloc*", "talloc_*", "_emalloc*", "_ecalloc*",
    "_erealloc*", "__zend_malloc", "__zend_realloc", "luaM_*", "l_alloc",
    /* PostgreSQL */
    "palloc*", "repalloc*", "pstrdup", "pnstrdup", "psprintf", "pvsnprintf", "MemoryContextAlloc*",
    "MemoryContextStrdup", "MemoryContextCreate", "AllocSet*", "GenerationAlloc*",
    "GenerationContextCreate*", "SlabAlloc*", "SlabContextCreate", "BumpAlloc*", "guc_malloc",
    "guc_realloc", "guc_strdup", "pg_malloc*", "pg_realloc", "pg_strdup", "pg_palloc*",
    /* perl */
    "safesys*", "Perl_safesys*", "Perl_more_bodies", "Perl_more_sv", "Perl_sv_grow*",
    "Perl_savepv*", "Perl_savesvpv*", "Perl_savesharedpv*",
    /* gcc, binutils */
    "ggc_*", "alloc_page", "alloc_anon*", "_obstack_*", "bfd_malloc*", "bfd_zmalloc*", "bfd_alloc*",
    "bfd_zalloc*", "objalloc_*", "_objalloc_*",
    /* HotSpot */
    "os::malloc*", "os::realloc*", "os::strdup*", "AllocateHeap*", "ReallocateHeap*",
    "Arena::grow*", "Arena::Amalloc*", "resource_allocate_bytes*", "ChunkPool::*",
    /* V8 and node; operators of single classes */
    "v8::internal::AllocWithRetry*", "v8::internal::Malloced::*", "v8::internal::NewArray*",
    "node::Malloc*", "node::UncheckedMalloc*", "node::Realloc*", "node::UncheckedRealloc*"};

int heap_skip_add(struct heap_skip *skip, const char *pattern)
{
    if (skip->count == HEAP_SKIPS)
        return -E2BIG;
    skip->patterns[skip->count++] = pattern;
    return 0;
}

static bool matches(const char *pattern, const char *name, const char *bare)
{
    return fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, bare, 0) == 0;
}

/* Whether NAME is one of the known wrappers, or the `operator new` of a class. BARE is the name
 * without return type and arguments. */
static bool is_known(const char *name, const char *bare)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        size_t fixed = *known[i] == *bare ? strcspn(known[i], "*") : 0; /* fnmatch is slow */
        if (fixed > 0 && strncmp(known[i], bare, fixed) == 0 && matches(known[i], name, bare))
            return true;
    }
    return strstr(bare, "::operator new") != NULL;
}

static bool is_found(const struct heap_found *found, const char *name)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->names[i], name) == 0)
            return true;
    return false;
}

bool heap_skip_is(const struct profile *p, const struct symbol_frame *frame)
{
    char bare[512];
    const char *name = profile_qualified(frame->function);
    size_t len = strcspn(name, "(");
    len = len < sizeof(bare) ? len : 0;
    memcpy(bare, name, len);
    bare[len] = '\0';
    for (size_t i = 0; i < p->skip.count; i++)
        if (matches(p->skip.patterns[i], frame->function, bare))
            return true;
    return !p->skip.none && !frame->python &&
           (is_known(frame->function, bare) || allocator_is_function(frame->function) ||
            is_found(&p->found, frame->function));
}

/* ---- wrappers that the recording shows ---- */

enum { LEAST_CALLERS = 8 };

static const double most_of_one_caller = 0.5; /* share of the bytes */
static const double least_sizes = 0.5;        /* different sizes, per caller */

void wrappers_add(struct profile *p, const char *function)
{
    for (size_t i = 0; i < p->found.count; i++)
        if (strcmp(p->found.names[i], function) == 0)
            return;
    if (p->found.count == HEAP_FOUND)
        return;
    char *copy = strdup(function);
    if (copy)
        p->found.names[p->found.count++] = copy;
}

/* A function of a stack, and the functions around it. */
struct use {
    const char *function, *module, *caller;
    const char *callee; /* the function that it called; NULL: malloc itself */
    bool is_simple;     /* called by another function, and not called again further out */
    double bytes, objects;
};

struct uses {
    struct use *list;
    size_t count;
    int64_t *sizes;    /* scratch buffer */
    struct map served; /* functions with a single caller: from the function to nothing */
};

static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    return ORDER((uintptr_t)x->function, (uintptr_t)y->function)
        ?: ORDER((uintptr_t)x->module, (uintptr_t)y->module)
        ?: ORDER((uintptr_t)x->caller, (uintptr_t)y->caller);
}

/* The use of the frame AT of STACK, which was called by the frame CALLER. */
static struct use use_of(const struct profile *p, uint32_t stack,
                         const struct symbol_frame *const *frames, size_t count, size_t at,
                         size_t caller)
{
    const struct recording_sum *sum = &p->rec.stacks[stack].sum;
    const struct symbol_frame *f = frames[at];
    struct use use = {.function = f->function,
                      .module = f->module,
                      .caller = caller < count ? frames[caller]->function : NULL,
                      .callee = at > 0 ? frames[at - 1]->function : NULL,
                      .is_simple = !f->python && f->origin > ORIGIN_WRAPPER && caller < count,
                      .bytes = sum->allocated_bytes,
                      .objects = sum->allocated_objects};
    for (size_t i = caller; i < count; i++)
        use.is_simple &= frames[i]->function != f->function;
    return use;
}

/* Adds up the COUNT uses of a function by caller; SIZES receives the mean size of each caller.
 * Returns their number, or 0 if the function cannot be a wrapper. */
static size_t count_callers(const struct use *uses, size_t count, int64_t *sizes)
{
    size_t callers = 0;
    double all = 0, most = 0;
    for (size_t i = 0, end; i < count; i = end) {
        double bytes = 0, objects = 0;
        for (end = i; end < count && uses[end].caller == uses[i].caller; end++) {
            if (!uses[end].is_simple || uses[end].callee != uses[0].callee)
                return 0;
            bytes += uses[end].bytes;
            objects += uses[end].objects;
        }
        sizes[callers++] = objects > 0 ? figure_whole(bytes / objects) : 0;
        all += bytes;
        most = fmax(most, bytes);
    }
    return callers == 1 || most <= all * most_of_one_caller ? callers : 0;
}

static bool has_many_sizes(int64_t *sizes, size_t callers)
{
    size_t different = 1;
    qsort(sizes, callers, sizeof(*sizes), order_i64);
    for (size_t i = 1; i < callers; i++)
        different += sizes[i] != sizes[i - 1];
    return (double)different >= (double)callers * least_sizes;
}

/* Finds the wrappers among the functions of U, and notes those with a single caller. */
static int judge(struct profile *p, struct uses *u)
{
    int err = 0;
    if (u->count)
        qsort(u->list, u->count, sizeof(*u->list), compare_uses);
    for (size_t i = 0, end; i < u->count && err == 0; i = end) {
        const struct use *first = &u->list[i];
        for (end = i; end < u->count && u->list[end].function == first->function &&
                      u->list[end].module == first->module;
             end++)
            ;
        size_t callers = count_callers(first, end - i, u->sizes);
        uint64_t key = (uintptr_t)first->function;
        if (callers >= LEAST_CALLERS && has_many_sizes(u->sizes, callers))
            wrappers_add(p, first->function);
        else if (callers == 1 && map_find(&u->served, key) == MAP_NONE)
            err = map_put(&u->served, key, 0);
    }
    return err;
}

/* The site and its caller in STACK. The caller counts if the site's function serves it alone. */
static void add_uses(const struct profile *p, uint32_t stack, const struct symbol_frame **frames,
                     struct uses *u, bool is_caller)
{
    const struct profile_stack *s = &p->stacks[stack];
    size_t count = profile_frames(p, stack, frames);
    size_t caller = s->caller_frame == PROFILE_NO_FRAME ? count : s->caller_frame;
    uint64_t function = (uintptr_t)frames[s->site_frame]->function;
    if (!is_caller)
        u->list[u->count++] = use_of(p, stack, frames, count, s->site_frame, caller);
    else if (caller < count && map_find(&u->served, function) != MAP_NONE)
        u->list[u->count++] =
            use_of(p, stack, frames, count, caller, sites_caller(frames, count, caller));
}

int wrappers_find(struct profile *p, const struct symbol_frame **frames)
{
    struct uses u = {.list = calloc(p->rec.stack_count + 1, sizeof(*u.list)),
                     .sizes = calloc(p->rec.stack_count + 1, sizeof(*u.sizes))};
    size_t before = p->found.count;
    int err = u.list && u.sizes ? 0 : -ENOMEM;
    for (int round = 0; round < 2 && err == 0; round++) {
        u.count = 0;
        for (uint32_t i = 0; i < p->rec.stack_count; i++)
            if (profile_has_site(p, i))
                add_uses(p, i, frames, &u, round == 1);
        err = judge(p, &u);
    }
    free(u.list);
    free(u.sizes);
    map_release(&u.served);
    return err ? err : (int)(p->found.count - before);
}

/* ---- trimming ---- */

/* Removes whole addresses only: a wrapper that is inlined into the site stays. */
void heap_trim(struct profile *p)
{
    for (uint32_t i = 0; i < p->rec.stack_count; i++) {
        struct profile_stack *s = &p->stacks[i];
        uint32_t first = 0, site = s->site_frame;
        while (first + 1 < s->depth && p->pcs[s->pcs[first]].count <= s->site_frame)
            s->site_frame -= p->pcs[s->pcs[first++]].count;
        s->caller_frame -= s->caller_frame == PROFILE_NO_FRAME ? 0 : site - s->site_frame;
        for (uint32_t k = first; k < s->depth; k++)
            s->pcs[k - first] = s->pcs[k];
        s->depth -= first;
    }
}
