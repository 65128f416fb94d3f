/* Allocation hooks for programs that cannot be interposed: statically linked ones, and those that
 * define malloc themselves. They are linked into the program with `--wrap`: references to malloc
 * come here, and `__real_malloc` is the program's own. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "target/span/usable.h"
#include "target/main/handoff.h"

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);
int __real_posix_memalign(void **, size_t, size_t);
void *__real_aligned_alloc(size_t, size_t);
void *__real_memalign(size_t, size_t);
void *__real_valloc(size_t);
void *__real_pvalloc(size_t) __attribute__((weak)); /* musl has none */
piano__create_fn __real_pthread_create;

void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_reallocarray(void *, size_t, size_t);
void __wrap_free(void *);
int __wrap_posix_memalign(void **, size_t, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
void *__wrap_memalign(size_t, size_t);
void *__wrap_valloc(size_t);
void *__wrap_pvalloc(size_t);
piano__create_fn __wrap_pthread_create;

static void *counted(void *p, size_t size)
{
    if (p)
        __piano_count_alloc(size);
    return p;
}

void *__wrap_malloc(size_t size)
{
    return counted(__real_malloc(size), size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return counted(__real_calloc(count, size), count * size);
}

void __wrap_free(void *p)
{
    if (p)
        __piano_count_free(__piano_usable_size(p, (void *)__real_malloc));
    __real_free(p);
}

void *__wrap_realloc(void *p, size_t size)
{
    size_t old = p ? __piano_usable_size(p, (void *)__real_malloc) : 0;
    void *fresh = __real_realloc(p, size);
    if (p && (fresh || size == 0))
        __piano_count_free(old);
    return counted(fresh, size);
}

void *__wrap_reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __wrap_realloc(p, bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    int err = __real_posix_memalign(out, alignment, size);
    if (err == 0)
        counted(*out, size);
    return err;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return counted(__real_aligned_alloc(alignment, size), size);
}

void *__wrap_memalign(size_t alignment, size_t size)
{
    return counted(__real_memalign(alignment, size), size);
}

void *__wrap_valloc(size_t size)
{
    return counted(__real_valloc(size), size);
}

void *__wrap_pvalloc(size_t size)
{
    return counted(__real_pvalloc(size), size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    return __piano_create(__real_pthread_create, thread, attr, start, arg);
}
