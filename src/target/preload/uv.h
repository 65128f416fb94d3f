/* Getting in front of libuv's functions. Its header is not needed to build piano: handles, requests and buffers are
 * addresses here. */
#ifndef PIANO_TARGET_PRELOAD_UV_H
#define PIANO_TARGET_PRELOAD_UV_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/preload/callbacks.h"
#include "target/trace/events.h"

#define UV_EXPORT __attribute__((visibility("default")))

/* A function of libuv's, defined here. */
#define UV_HOOK(type, name, ...)                                                                   \
    type name(__VA_ARGS__);                                                                        \
    UV_EXPORT type name(__VA_ARGS__)

/* `next`: libuv's own. Without one, the function returns what is behind NAME. */
#define UV_NEXT(name, ...)                                                                         \
    static __typeof__(name) *cached;                                                               \
    __typeof__(name) *next = __atomic_load_n(&cached, __ATOMIC_RELAXED);                           \
    if (__builtin_expect(!next, 0)) {                                                              \
        next = (__typeof__(name) *)piano__uv_find(#name);                                          \
        __atomic_store_n(&cached, next, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    if (!next)                                                                                     \
    return __VA_ARGS__

/* libuv's function, or NULL. */
void *piano__uv_find(const char *name);

/* One callback on its way to libuv. */
struct piano__uv_swap {
    const void *object;
    enum piano__callback_kind kind;
    bool swapped;
    struct piano__callback before;
};

/* OURS when it is to be called in place of THEIRS, which is then known by OBJECT and KIND; else THEIRS. */
uintptr_t piano__uv_swap(struct piano__uv_swap *s, const void *object,
                         enum piano__callback_kind kind, uintptr_t theirs, uintptr_t ours);
/* RESULT of libuv's function, which did not take the callback when it is below 0. */
int piano__uv_swapped(const struct piano__uv_swap *s, int result);

#define UV_SWAP(s, object, kind, theirs, ours)                                                     \
    ((__typeof__(theirs))piano__uv_swap(s, object, PIANO_CALLBACK_##kind, (uintptr_t)(theirs),     \
                                        (uintptr_t)(ours)))

/* The events around CALL, a call of CALLBACK's function, which is for OBJECT. */
#define UV_CALL(callback, object, call)                                                            \
    do {                                                                                           \
        piano__events_callback_begin((uintptr_t)(object), (callback).name, (callback).function);   \
        call;                                                                                      \
        piano__events_poll_end();                                                                  \
    } while (0)

#endif
