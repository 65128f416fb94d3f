/* Callbacks that a program passed to a library, which was given one of piano's instead. They are
 * found by the object they were passed with. Lock-free. The table has room for many, but is
 * limited. */
#ifndef PIANO_TARGET_PRELOAD_CALLBACKS_H
#define PIANO_TARGET_PRELOAD_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

enum piano__callback_kind {
    PIANO_CALLBACK_TIMER,
    PIANO_CALLBACK_READ,
    PIANO_CALLBACK_CONNECTION,
    PIANO_CALLBACK_POLL,
    PIANO_CALLBACK_IDLE,
    PIANO_CALLBACK_PREPARE,
    PIANO_CALLBACK_CHECK,
    PIANO_CALLBACK_ASYNC,
    PIANO_CALLBACK_SIGNAL,
    PIANO_CALLBACK_RECV,
    /* Kinds before this stay until their object is dropped. Kinds from here on are called once. */
    PIANO_CALLBACK_OF_HANDLES,
    PIANO_CALLBACK_CLOSE = PIANO_CALLBACK_OF_HANDLES,
    PIANO_CALLBACK_WRITE,
    PIANO_CALLBACK_CONNECT,
    PIANO_CALLBACK_SHUTDOWN,
    PIANO_CALLBACK_SEND,
    PIANO_CALLBACK_WORK,
    PIANO_CALLBACK_AFTER_WORK,
    PIANO_CALLBACK_GETADDRINFO,
    PIANO_CALLBACK_FS,
    PIANO_CALLBACK_KINDS
};

struct piano__callback {
    uintptr_t function; /* 0: none */
    const char *name;   /* "timer@0x55d0c0ffee00"; never freed */
};

/* Stores FUNCTION, which may be 0, and returns the previous callback in BEFORE. Returns false,
 * without a change, if there is no room. */
bool piano__callbacks_put(const void *object, enum piano__callback_kind kind, uintptr_t function,
                          struct piano__callback *before);
/* Restores the state before `piano__callbacks_put`. */
void piano__callbacks_undo(const void *object, enum piano__callback_kind kind,
                           const struct piano__callback *before);
struct piano__callback piano__callbacks_get(const void *object, enum piano__callback_kind kind);
/* The same, and removes it. */
struct piano__callback piano__callbacks_take(const void *object, enum piano__callback_kind kind);
/* Removes all callbacks that stay with OBJECT. */
void piano__callbacks_drop(const void *object);

#endif
