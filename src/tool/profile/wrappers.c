/* Recognises wrappers: functions of a program or library that only allocate memory for their
 * caller. Some names are built in; the user gives others as shell patterns. A pattern is matched
 * against the whole name and, for C++, also against the name without arguments and return type. */
#include "tool/profile/profile.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static const char *const known[] = {
    "xmalloc",           "xcalloc",           "xzalloc",
    "xrealloc",          "xreallocarray",     "xnmalloc",
    "xnrealloc",         "x2realloc",         "x2nrealloc",
    "xpalloc",           "xmemdup*",          "xstrdup",
    "xstrndup",          "xcharalloc",        "ximalloc",
    "xirealloc",         "ximemdup*",         "xasprintf",
    "xvasprintf",        "g_malloc*",         "g_try_malloc*",
    "g_realloc*",        "g_try_realloc*",    "g_slice_alloc*",
    "g_strdup*",         "g_strndup",         "g_memdup*",
    "sqlite3Malloc*",    "sqlite3_malloc*",   "sqlite3MemMalloc",
    "sqlite3MemRealloc", "sqlite3Realloc*",   "sqlite3_realloc*",
    "sqlite3DbMalloc*",  "sqlite3DbRealloc*", "sqlite3DbStr*Dup",
    "mallocWithAlarm",   "dbMallocRawFinish", "dbReallocFinish",
    "jv_mem_*",          "CRYPTO_malloc",     "CRYPTO_zalloc",
    "CRYPTO_calloc",     "CRYPTO_realloc*",   "CRYPTO_clear_realloc",
    "CRYPTO_strdup",     "CRYPTO_strndup",    "CRYPTO_memdup",
    "PyMem_*",           "_PyMem_*",          "PyObject_Malloc",
    "PyObject_Calloc",   "PyObject_Realloc",  "_PyObject_Malloc",
    "_PyObject_Calloc",  "_PyObject_Realloc", "pymalloc_alloc",
    "zmalloc*",          "zcalloc*",          "zrealloc*",
    "ztrymalloc*",       "ztrycalloc*",       "ztryrealloc*",
    "uv__malloc",        "uv__calloc",        "uv__realloc*",
    "uv__strdup",        "ngx_alloc",         "ngx_calloc",
    "ngx_memalign",      "av_malloc*",        "av_realloc*",
    "objspace_xmalloc*", "ruby_xmalloc*",     "ruby_xrealloc*"};

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

bool heap_skip_is(const struct heap_skip *skip, const struct symbol_frame *frame)
{
    char bare[512];
    const char *name = profile_qualified(frame->function);
    size_t len = strcspn(name, "(");
    snprintf(bare, sizeof(bare), "%.*s", len > 0 && len < sizeof(bare) ? (int)len : 0, name);
    for (size_t i = 0; skip && i < skip->count; i++)
        if (matches(skip->patterns[i], frame->function, bare))
            return true;
    for (size_t i = 0; !(skip && skip->none) && i < sizeof(known) / sizeof(*known); i++)
        if (*known[i] == *frame->function && fnmatch(known[i], frame->function, 0) == 0)
            return true;
    return !(skip && skip->none) && allocator_is_function(frame->function);
}

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
