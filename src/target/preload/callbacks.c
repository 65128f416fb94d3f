/* A hash table of fixed size. An entry is within a window of places after its hash. A look-up reads
 * the whole window, so an entry can be removed without a tombstone.
 *
 * A place is taken by a CAS of its key, which is the only thing that threads contend for. The
 * callback belongs to one object. It is read and written by the threads that may use that object,
 * and the library that calls back has to order these accesses anyway.
 *
 * Names are in a separate table, since there are few functions and many objects. Two threads that
 * add a new function at the same time may both write its name. That does no harm: names are
 * compared by their text. */
#include "target/preload/callbacks.h"

#include <stddef.h>
#include <string.h>

#include "target/sys/file.h"

enum { PLACES = 1 << 16, WINDOW = 32, NAMES = 1 << 10, NAME_BYTES = 40, KIND_BITS = 5 };

_Static_assert(PIANO_CALLBACK_KINDS <= 1 << KIND_BITS, "a kind fits into a key");

struct place {
    uint64_t key; /* 0: free */
    struct piano__callback callback;
};

enum name_state { NAME_FREE, NAME_WRITTEN, NAME_READY };

struct name {
    uint32_t state;
    enum piano__callback_kind kind;
    uintptr_t function;
    char text[NAME_BYTES];
};

static struct place *places; /* PLACES of them, allocated at the first use */
static struct name names[NAMES];

static const char *const kinds[PIANO_CALLBACK_KINDS] = {
    [PIANO_CALLBACK_TIMER] = "timer",
    [PIANO_CALLBACK_READ] = "read",
    [PIANO_CALLBACK_CONNECTION] = "connection",
    [PIANO_CALLBACK_POLL] = "poll",
    [PIANO_CALLBACK_IDLE] = "idle",
    [PIANO_CALLBACK_PREPARE] = "prepare",
    [PIANO_CALLBACK_CHECK] = "check",
    [PIANO_CALLBACK_ASYNC] = "async",
    [PIANO_CALLBACK_SIGNAL] = "signal",
    [PIANO_CALLBACK_RECV] = "udp recv",
    [PIANO_CALLBACK_CLOSE] = "close",
    [PIANO_CALLBACK_WRITE] = "write",
    [PIANO_CALLBACK_CONNECT] = "connect",
    [PIANO_CALLBACK_SHUTDOWN] = "shutdown",
    [PIANO_CALLBACK_SEND] = "udp send",
    [PIANO_CALLBACK_WORK] = "work",
    [PIANO_CALLBACK_AFTER_WORK] = "after work",
    [PIANO_CALLBACK_GETADDRINFO] = "getaddrinfo",
    [PIANO_CALLBACK_FS] = "fs",
};

static uint32_t hash_of(uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32);
}

/* ---- names ---- */

static void write_name(char *text, enum piano__callback_kind kind, uintptr_t function)
{
    int digits = 1;
    while (digits < (int)(2 * sizeof function) && function >> (4 * digits))
        digits++;
    char *at = stpcpy(stpcpy(text, kinds[kind]), "@0x");
    while (digits-- > 0)
        *at++ = "0123456789abcdef"[function >> (4 * digits) & 15];
    *at = '\0';
}

/* Returns a name; without the function if there are too many. */
static const char *name_of(enum piano__callback_kind kind, uintptr_t function)
{
    uint32_t hash = hash_of((uint64_t)function << KIND_BITS | kind);
    for (uint32_t i = 0; i < WINDOW; i++) {
        struct name *n = &names[(hash + i) % NAMES];
        /* Pairs with the release below: the name is complete. */
        uint32_t state = __atomic_load_n(&n->state, __ATOMIC_ACQUIRE);
        if (state == NAME_READY && n->function == function && n->kind == kind)
            return n->text;
        if (state == NAME_FREE &&
            __atomic_compare_exchange_n(&n->state, &state, NAME_WRITTEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            n->function = function;
            n->kind = kind;
            write_name(n->text, kind, function);
            /* Pairs with the acquire above. */
            __atomic_store_n(&n->state, NAME_READY, __ATOMIC_RELEASE);
            return n->text;
        }
    }
    return kinds[kind];
}

/* ---- places ---- */

/* Returns 0 if the object is not aligned like a C object. */
static uint64_t key_of(const void *object, enum piano__callback_kind kind)
{
    uintptr_t at = (uintptr_t)object;
    return at == 0 || at % sizeof(void *) != 0
               ? 0
               : ((uint64_t)at / sizeof(void *)) << KIND_BITS | kind;
}

static struct place *find(uint64_t key)
{
    uint32_t hash = hash_of(key);
    /* Pairs with the CAS in make_places(): the table is mapped. */
    struct place *all = __atomic_load_n(&places, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; all && key && i < WINDOW; i++) {
        struct place *p = &all[(hash + i) % PLACES];
        /* Pairs with the CAS in claim(). */
        if (__atomic_load_n(&p->key, __ATOMIC_ACQUIRE) == key)
            return p;
    }
    return NULL;
}

/* Maps the table at the first use, since most programs do not need it. */
static struct place *make_places(void)
{
    /* Pairs with the CAS below. */
    struct place *all = __atomic_load_n(&places, __ATOMIC_ACQUIRE);
    if (all)
        return all;
    struct place *fresh = piano__memory_map(PLACES * sizeof *fresh);
    if (!fresh || __atomic_compare_exchange_n(&places, &all, fresh, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE))
        return fresh;
    piano__memory_unmap(fresh, PLACES * sizeof *fresh);
    return all;
}

static struct place *claim(uint64_t key)
{
    uint32_t hash = hash_of(key);
    struct place *all = make_places();
    for (uint32_t i = 0; all && key && i < WINDOW; i++) {
        struct place *p = &all[(hash + i) % PLACES];
        uint64_t none = 0;
        /* Pairs with the release in leave(): the callback is cleared. */
        if (__atomic_load_n(&p->key, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&p->key, &none, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return p;
    }
    return NULL;
}

static void leave(struct place *p)
{
    p->callback = (struct piano__callback){0};
    /* Pairs with the CAS in claim(). */
    __atomic_store_n(&p->key, 0, __ATOMIC_RELEASE);
}

bool piano__callbacks_put(const void *object, enum piano__callback_kind kind, uintptr_t function,
                          struct piano__callback *before)
{
    uint64_t key = key_of(object, kind);
    struct place *p = find(key);
    *before = p ? p->callback : (struct piano__callback){0};
    if (!p)
        p = claim(key);
    if (!p)
        return false;
    p->callback = (struct piano__callback){function, name_of(kind, function)};
    return true;
}

void piano__callbacks_undo(const void *object, enum piano__callback_kind kind,
                           const struct piano__callback *before)
{
    struct place *p = find(key_of(object, kind));
    if (p && before->name)
        p->callback = *before;
    else if (p)
        leave(p);
}

struct piano__callback piano__callbacks_get(const void *object, enum piano__callback_kind kind)
{
    const struct place *p = find(key_of(object, kind));
    return p ? p->callback : (struct piano__callback){0};
}

struct piano__callback piano__callbacks_take(const void *object, enum piano__callback_kind kind)
{
    struct place *p = find(key_of(object, kind));
    struct piano__callback callback = p ? p->callback : (struct piano__callback){0};
    if (p)
        leave(p);
    return callback;
}

void piano__callbacks_drop(const void *object)
{
    for (int kind = 0; kind < PIANO_CALLBACK_OF_HANDLES; kind++) {
        struct place *p = find(key_of(object, (enum piano__callback_kind)kind));
        if (p)
            leave(p);
    }
}
