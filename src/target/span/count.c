/* Counting for hooks that are compiled into the program itself (preload/wrap.c). These cannot use
 * the runtime's hidden symbols. */
#include "target/span/count.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/auxv.h>

#include "target/span/usable.h"

__thread int piano__hooks_open;
bool piano__hooks_nest = true; /* until it is known */
bool piano__count_is_hooked;

extern size_t malloc_usable_size(void *) __attribute__((weak));
/* So that a static program needs no -ldl before glibc 2.34. It never calls this. */
#pragma weak dladdr

void __piano_count_alloc(unsigned long bytes)
{
    if (!piano__count_is_hooked)
        piano__count_alloc(piano__self_thread(), bytes);
}

void __piano_count_free(unsigned long bytes)
{
    if (!piano__count_is_hooked)
        piano__count_free(piano__self_thread(), bytes);
}

size_t __piano_usable_size(void *p, void *malloc_function)
{
    if (!piano__self_thread()->owner || !piano__usable_is_of(malloc_function))
        return 0;
    return malloc_usable_size(p);
}

/* A size function only works for blocks of its own allocator. A static program has only one
 * allocator. */
bool piano__usable_is_of(void *malloc_function)
{
    static void *known;
    static bool answer;
    if (known == malloc_function)
        return answer;
    Dl_info of_malloc, of_size;
    void *size_function = (void *)malloc_usable_size;
    bool is_static = getauxval(AT_BASE) == 0;
    answer = size_function && (is_static || (dladdr && dladdr(malloc_function, &of_malloc) &&
                                             dladdr(size_function, &of_size) &&
                                             of_malloc.dli_fbase == of_size.dli_fbase));
    known = malloc_function;
    return answer;
}
