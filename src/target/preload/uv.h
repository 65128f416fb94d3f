/* Interposes libuv's functions. Its header is not needed to build piano: handles, requests and
 * buffers are plain addresses here. */
#ifndef PIANO_TARGET_PRELOAD_UV_H
#define PIANO_TARGET_PRELOAD_UV_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/preload/callbacks.h"
#include "target/trace/events.h"

#define UV_EXPORT __attribute__((visibility("default")))

/* Defines a function of libuv. */
#define UV_HOOK(type, name, ...)                                                                   \
    type name(__VA_ARGS__);                                                                        \
    UV_EXPORT type name(__VA_ARGS__)

/* Defines `next`, libuv's own function. If there is none, returns the arguments after NAME.
 * Relaxed: all threads find the same address. */
#define UV_NEXT(name, ...)                                                                         \
    static __typeof__(name) *cached;                                                               \
    __typeof__(name) *next = __atomic_load_n(&cached, __ATOMIC_RELAXED);                           \
    if (__builtin_expect(!next, 0)) {                                                              \
        next = (__typeof__(name) *)piano__uv_find(#name);                                          \
        __atomic_store_n(&cached, next, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    if (!next)                                                                                     \
    return __VA_ARGS__

/* Returns libuv's function, or NULL. */
void *piano__uv_find(const char *name);

/* One callback that is being passed to libuv. */
struct piano__uv_swap {
    const void *object;
    enum piano__callback_kind kind;
    bool swapped;
    struct piano__callback before;
};

/* Returns OURS if it is to be called in place of THEIRS, which is then stored by OBJECT and KIND;
 * else THEIRS. */
uintptr_t piano__uv_swap(struct piano__uv_swap *s, const void *object,
                         enum piano__callback_kind kind, uintptr_t theirs, uintptr_t ours);
/* Call it with the RESULT of libuv's function. If that is negative, libuv did not take the
 * callback. */
int piano__uv_swapped(const struct piano__uv_swap *s, int result);

#define UV_SWAP(s, object, kind, theirs, ours)                                                     \
    ((__typeof__(theirs))piano__uv_swap(s, object, PIANO_CALLBACK_##kind, (uintptr_t)(theirs),     \
                                        (uintptr_t)(ours)))

/* Writes the events around CALL, a call of CALLBACK's function for OBJECT. */
#define UV_CALL(callback, object, call)                                                            \
    do {                                                                                           \
        piano__events_callback_begin((uintptr_t)(object), (callback).name, (callback).function);   \
        call;                                                                                      \
        piano__events_poll_end();                                                                  \
    } while (0)

#endif
