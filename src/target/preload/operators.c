/* C++'s operators. Those of libstdc++ call malloc and free, so the hooks only forward. An allocator
 * with its own operators (jemalloc, tcmalloc, mimalloc) calls itself by internal names. Such calls
 * never reach malloc, and are counted here. Which case applies is found by a trial call.
 *
 * The operators are exported, so they come before those of all libraries, also of libraries that
 * are loaded later. If the program itself has no C++ library, the next operator is not in the
 * lookup order: it is in a dependency of the calling library.
 *
 * The operators have many signatures, but the size or the block is always the first argument.
 * Passing more arguments than a function takes does no harm in either calling convention. A failing
 * operator throws through these functions. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "target/span/count.h"
#include "target/heap/heap.h"
#include "target/preload/late.h"
#include "target/preload/next.h"
#include "target/preload/place.h"

#define EXPORT __attribute__((visibility("default")))

typedef void *new_function(size_t size, const void *a, const void *b);
typedef void delete_function(void *p, const void *a, const void *b);

#define EVERY_NEW(X)                                                                               \
    X(_Znwm)                                                                                       \
    X(_Znam)                                                                                       \
    X(_ZnwmRKSt9nothrow_t)                                                                         \
    X(_ZnamRKSt9nothrow_t)                                                                         \
    X(_ZnwmSt11align_val_t)                                                                        \
    X(_ZnamSt11align_val_t)                                                                        \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t)                                                          \
    X(_ZnamSt11align_val_tRKSt9nothrow_t)
#define EVERY_UNSIZED_DELETE(X)                                                                    \
    X(_ZdlPv)                                                                                      \
    X(_ZdaPv)                                                                                      \
    X(_ZdlPvRKSt9nothrow_t)                                                                        \
    X(_ZdaPvRKSt9nothrow_t)                                                                        \
    X(_ZdlPvSt11align_val_t)                                                                       \
    X(_ZdaPvSt11align_val_t)                                                                       \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                         \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)
#define EVERY_SIZED_DELETE(X)                                                                      \
    X(_ZdlPvm)                                                                                     \
    X(_ZdaPvm)                                                                                     \
    X(_ZdlPvmSt11align_val_t)                                                                      \
    X(_ZdaPvmSt11align_val_t)
#define EVERY_DELETE(X) EVERY_UNSIZED_DELETE(X) EVERY_SIZED_DELETE(X)

static bool are_counted; /* the next operators are the allocator's own, and do not call malloc */
/* The same for a delete that takes the size. In jemalloc 5.2, only this one does not call free. */
static bool are_sized_counted;

#define NEXT_NEW(name)                                                                             \
    EXPORT new_function name;                                                                      \
    static new_function *next_##name;
#define NEXT_DELETE(name)                                                                          \
    EXPORT delete_function name;                                                                   \
    static delete_function *next_##name;
EVERY_NEW(NEXT_NEW)
EVERY_DELETE(NEXT_DELETE)

/* A library that was built for piano depends on libpiano before all others. So a look-up there may
 * find the hook itself. */
static void *find(void *library, const char *name, const void *own)
{
    void *found = dlsym(library, name);
    return found == own ? NULL : found;
}

/* Looks up all operators that are not known yet, so that a new and its delete belong together.
 * Several threads may do this at once: the first result stays. Relaxed: addresses of loaded
 * code. */
static void find_all(void *library)
{
#define FIND(name)                                                                                 \
    if (!__atomic_load_n(&next_##name, __ATOMIC_RELAXED)) {                                        \
        void *found = find(library, #name, (const void *)(name));                                  \
        if (found)                                                                                 \
            __atomic_store_n(&next_##name, (__typeof__(next_##name))found, __ATOMIC_RELAXED);      \
    }
    EVERY_NEW(FIND)
    EVERY_DELETE(FIND)
}

static void find_in(const char *library)
{
    void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!loaded)
        return;
    find_all(loaded);
    dlclose(loaded);
}

/* Keeps the library of a cached function loaded. */
static void keep(const void *function)
{
    Dl_info info;
    if (function && dladdr(function, &info))
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Looks up the operators as the library that contains CALLER would find them without these hooks.
 * The first call looks up all of them: later, the lock holder in the loader may wait for the thread
 * that needs another one. */
static __attribute__((noinline)) void find_from(const void *caller)
{
    Dl_info info;
    int saved = errno;
    uintptr_t own_before = piano__heap_own_begin();
    find_all(RTLD_NEXT);
    if (dladdr(caller, &info))
        find_in(info.dli_fname);
    find_in("libstdc++.so.6");
    find_in("libc++.so.1");
#define KEEP(name) keep((const void *)next_##name);
    EVERY_NEW(KEEP)
    EVERY_DELETE(KEEP)
    (void)dlerror(); /* do not leave an error message for the program */
    piano__heap_own_end(own_before);
    errno = saved;
}

/* Does what the malloc hooks would do, for a new block. */
static void *made(void *p, size_t size)
{
    if (!piano__heap_is_current())
        piano__heap_renew();
    if (!p || piano__heap_passes(size))
        return p;
    piano__count_alloc(piano__self_thread(), size);
    if (!piano__heap_passes_hidden(size))
        piano__heap_allocated(p, size, 0);
    return p;
}

/* If only some operators are counted, the malloc hooks have counted the size of the block. */
static void gone(void *p)
{
    if (!p)
        return;
    if (piano__filter_may_hold(p))
        piano__heap_freed(p);
    if (piano__heap_self.watched)
        piano__count_free(piano__self_thread(), are_counted ? 0 : piano__alloc_size(p));
}

#define NEW(name)                                                                                  \
    EXPORT void *name(size_t size, const void *a, const void *b)                                   \
    {                                                                                              \
        if (__builtin_expect(!next_##name, 0))                                                     \
            find_from(__builtin_return_address(0));                                                \
        if (__builtin_expect(!next_##name, 0))                                                     \
            return piano__alloc_take(size);                                                        \
        return __builtin_expect(!are_counted, 1) ? next_##name(size, a, b)                         \
                                                 : made(next_##name(size, a, b), size);            \
    }
#define DELETE(name, flag)                                                                         \
    EXPORT void name(void *p, const void *a, const void *b)                                        \
    {                                                                                              \
        const bool is_counted = flag;                                                              \
        if (__builtin_expect(!next_##name, 0))                                                     \
            find_from(__builtin_return_address(0));                                                \
        if (__builtin_expect(is_counted, 0))                                                       \
            gone(p);                                                                               \
        uintptr_t before =                                                                         \
            is_counted ? piano__heap_own_begin() /* some of them call free anyway */ : 0;          \
        if (__builtin_expect(!next_##name, 0))                                                     \
            piano__alloc_give(p);                                                                  \
        else                                                                                       \
            next_##name(p, a, b);                                                                  \
        if (is_counted)                                                                            \
            piano__heap_own_end(before);                                                           \
    }

#define UNSIZED_DELETE(name) DELETE(name, are_counted)
#define SIZED_DELETE(name) DELETE(name, are_sized_counted)

EVERY_NEW(NEW)
EVERY_UNSIZED_DELETE(UNSIZED_DELETE)
EVERY_SIZED_DELETE(SIZED_DELETE)

static bool same_module(const void *a, const void *b)
{
    Dl_info of_a, of_b;
    return a && b && dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

static void *made_to_try[2]; /* a step is run twice */
static int made_count;

static void call_new(void)
{
    made_to_try[made_count++] = _Znwm(1, NULL, NULL);
}

static void call_sized_delete(void)
{
    _ZdlPvm(made_to_try[--made_count], (const void *)1, NULL);
}

void piano__operators_place(const void *malloc_function, bool (*reaches_us)(void (*step)(void)))
{
    const void *theirs = dlsym(RTLD_NEXT, "_Znwm");
    if (theirs && !next__Znwm)
        find_all(RTLD_NEXT);
    if (are_counted || !same_module(theirs, malloc_function))
        return;
    bool reaches = reaches_us(call_new);
    bool sized_reaches = reaches && reaches_us(call_sized_delete);
    while (made_count > 0)
        _ZdlPv(made_to_try[--made_count], NULL, NULL);
    are_counted = !reaches;
    are_sized_counted = !sized_reaches;
}

/* In an attached process the allocator's own calls are not redirected, so its operators reach no
 * hook of malloc. */
void piano__operators_each(const void *malloc_function,
                           void (*take)(const char *name, void *from, void *hook))
{
    if (!same_module(piano__next_used("_Znwm"), malloc_function))
        return;
    are_counted = are_sized_counted = true;
#define TAKE(name)                                                                                 \
    if (!next_##name)                                                                              \
        next_##name = (__typeof__(next_##name))piano__next_used(#name);                            \
    take(#name, (void *)next_##name, (void *)(name));
    EVERY_NEW(TAKE)
    EVERY_DELETE(TAKE)
}
