/* C++'s operators, where the allocator brings its own (jemalloc, tcmalloc, mimalloc do): those call the allocator by inner
 * names and never pass malloc. The tables of all modules that are loaded when the program starts are pointed here. With
 * libstdc++'s operators, which call malloc and free, there is nothing to do.
 *
 * The operators come in many shapes, but the size or the block is always the first argument, and passing on more arguments
 * than there are does no harm in either calling convention. One that fails throws, through here. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "target/heap/count.h"
#include "target/heap/heap.h"
#include "target/preload/got.h"
#include "target/preload/place.h"

typedef void *new_function(size_t size, const void *a, const void *b);
typedef void delete_function(void *p, const void *a, const void *b);

/* The block is there; what the hooks of malloc would do. */
static void *made(void *p, size_t size)
{
    if (p && (piano__heap_self.watched || !piano__heap_passes(size))) {
        piano__count_alloc(piano__self_thread(), size);
        piano__heap_allocated(p, size, 0);
    }
    return p;
}

static void gone(const void *p)
{
    if (p && piano__filter_may_hold(p))
        piano__heap_freed(p);
    if (p && piano__heap_self.watched)
        piano__count_free(piano__self_thread(), 0); /* its size is the allocator's secret */
}

#define NEW(name)                                                                                  \
    static new_function *next_##name;                                                              \
    static void *our_##name(size_t size, const void *a, const void *b)                             \
    {                                                                                              \
        return made(next_##name(size, a, b), size);                                                \
    }
#define DELETE(name)                                                                               \
    static delete_function *next_##name;                                                           \
    static void our_##name(void *p, const void *a, const void *b)                                  \
    {                                                                                              \
        gone(p);                                                                                   \
        next_##name(p, a, b);                                                                      \
    }

#define EVERY_NEW(X)                                                                               \
    X(_Znwm)                                                                                       \
    X(_Znam)                                                                                       \
    X(_ZnwmRKSt9nothrow_t)                                                                         \
    X(_ZnamRKSt9nothrow_t)                                                                         \
    X(_ZnwmSt11align_val_t)                                                                        \
    X(_ZnamSt11align_val_t)                                                                        \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t)                                                          \
    X(_ZnamSt11align_val_tRKSt9nothrow_t)
#define EVERY_DELETE(X)                                                                            \
    X(_ZdlPv)                                                                                      \
    X(_ZdaPv)                                                                                      \
    X(_ZdlPvm)                                                                                     \
    X(_ZdaPvm)                                                                                     \
    X(_ZdlPvRKSt9nothrow_t)                                                                        \
    X(_ZdaPvRKSt9nothrow_t)                                                                        \
    X(_ZdlPvSt11align_val_t)                                                                       \
    X(_ZdaPvSt11align_val_t)                                                                       \
    X(_ZdlPvmSt11align_val_t)                                                                      \
    X(_ZdaPvmSt11align_val_t)                                                                      \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                         \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)

EVERY_NEW(NEW)
EVERY_DELETE(DELETE)

static bool same_module(const void *a, const void *b)
{
    Dl_info of_a, of_b;
    return a && b && dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

void piano__operators_place(const void *malloc_function)
{
    const struct {
        const char *name;
        void *ours;
        void *next;
    } all[] = {
#define ROW(name) {#name, (void *)our_##name, &next_##name},
        EVERY_NEW(ROW) EVERY_DELETE(ROW)};
    struct piano__redirect redirects[sizeof all / sizeof *all];
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *theirs = dlsym(RTLD_DEFAULT, all[i].name);
        if (!same_module(theirs, malloc_function))
            continue; /* libstdc++'s, or none */
        memcpy(all[i].next, &theirs, sizeof theirs);
        redirects[count++] = (struct piano__redirect){all[i].name, theirs, all[i].ours};
    }
    if (count > 0)
        piano__got_redirect(redirects, count);
}
