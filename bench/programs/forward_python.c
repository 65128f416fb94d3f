/* Preloaded hooks of CPython's allocators that only call the real functions: the minimum cost of a profiler of small objects. */
#include <stddef.h>

struct allocator {
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *p, size_t size);
    void (*free)(void *ctx, void *p);
};

extern void PyMem_GetAllocator(int domain, struct allocator *out) __attribute__((weak));
extern void PyMem_SetAllocator(int domain, struct allocator *in) __attribute__((weak));

#define HOOKS(name)                                                                                \
    static struct allocator name;                                                                  \
    static void *name##_malloc(void *ctx, size_t size)                                             \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return name.malloc(name.ctx, size);                                                        \
    }                                                                                              \
    static void *name##_calloc(void *ctx, size_t count, size_t size)                               \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return name.calloc(name.ctx, count, size);                                                 \
    }                                                                                              \
    static void *name##_realloc(void *ctx, void *p, size_t size)                                   \
    {                                                                                              \
        (void)ctx;                                                                                 \
        return name.realloc(name.ctx, p, size);                                                    \
    }                                                                                              \
    static void name##_free(void *ctx, void *p)                                                    \
    {                                                                                              \
        (void)ctx;                                                                                 \
        name.free(name.ctx, p);                                                                    \
    }                                                                                              \
    static void name##_begin(int domain)                                                           \
    {                                                                                              \
        PyMem_GetAllocator(domain, &name);                                                         \
        struct allocator ours = {name.ctx, name##_malloc, name##_calloc, name##_realloc,           \
                                 name##_free};                                                     \
        PyMem_SetAllocator(domain, &ours);                                                         \
    }

HOOKS(mem)
HOOKS(obj)

__attribute__((constructor)) static void begin(void)
{
    if (!PyMem_GetAllocator || !PyMem_SetAllocator)
        return;
    mem_begin(1);
    obj_begin(2);
}
