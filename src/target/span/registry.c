/* Function table. `__piano_register` runs in constructors, once per compilation unit, and again for
 * each library loaded later. It numbers every function and stores the offset of its head in the
 * unit's own table, where the inline probe reads it.
 *
 * Registration is rare and takes a lock, held for one unit. Readers take no lock: an entry is
 * complete before the count that covers it is published. The lock word is the holder's thread id. A
 * signal handler that loads a library while its own thread holds the lock does not wait. The unit
 * then stays unregistered; its functions are not measured and are counted as dropped. The same
 * happens after WAIT_NS of waiting for another thread.
 *
 * An open-addressing table over a 64-bit hash of name, file and line finds equal functions. */
#include "target/span/registry.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/heap/hooks.h"
#include "target/span/run.h"
#include "target/span/thread.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/runs.h"

enum { SPINS = 200, NAP_NS = 50000 };
static const int64_t WAIT_NS = 5000000000;
enum { CAPACITY = 1 << 20, TABLE = 1 << 21, ARENA = 1 << 20 };

static struct {
    int holder; /* thread id, 0: free */
    uint32_t count;
    uint32_t refused;                  /* functions of units that could not be registered */
    struct piano__function *functions; /* CAPACITY entries; pages are allocated on first touch */
    uint32_t *table;                   /* id + 1, 0 = empty */
    char *arena;
    size_t arena_left;
    const char *frame_fn;
    bool counts_allocator; /* see __piano_counts_allocator */
} registry;

uint32_t piano__registry_count(void)
{
    /* Pairs with the release in find_or_add_locked(): the functions below it are complete. */
    return __atomic_load_n(&registry.count, __ATOMIC_ACQUIRE);
}

uint32_t piano__registry_refused(void)
{
    return __atomic_load_n(&registry.refused, __ATOMIC_RELAXED);
}

const struct piano__function *piano__registry_get(uint32_t id)
{
    return &registry.functions[id];
}

const char *piano__registry_frame_fn(void)
{
    return registry.frame_fn;
}

static uint64_t hash_bytes(uint64_t hash, const char *s)
{
    for (; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_function(const struct __piano_fn *fn)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, fn->name);
    hash = hash_bytes(hash * 31, fn->file);
    hash = (hash ^ fn->line) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static const char *copy_string(const char *s)
{
    size_t len = strlen(s) + 1;
    if (len > registry.arena_left) {
        size_t size = len > ARENA ? len : ARENA;
        registry.arena = piano__memory_map(size);
        if (!registry.arena) {
            registry.arena_left = 0;
            return NULL;
        }
        registry.arena_left = size;
    }
    char *copy = registry.arena;
    memcpy(copy, s, len);
    registry.arena += len;
    registry.arena_left -= len;
    return copy;
}

static bool is_same(const struct piano__function *f, const struct __piano_fn *fn, uint64_t hash)
{
    return f->hash == hash && f->line == fn->line && strcmp(f->name, fn->name) == 0 &&
           strcmp(f->file, fn->file) == 0;
}

/* Returns the function's number, new or existing; -1 if the table is full or memory ran out. */
static int64_t find_or_add_locked(const struct __piano_fn *fn)
{
    uint64_t hash = hash_function(fn);
    uint32_t count = __atomic_load_n(&registry.count, __ATOMIC_RELAXED);
    uint32_t at = (uint32_t)hash % TABLE;
    while (registry.table[at] != 0) {
        uint32_t id = registry.table[at] - 1;
        if (is_same(&registry.functions[id], fn, hash))
            return id;
        at = (at + 1) % TABLE;
    }
    if (count == CAPACITY)
        return -1;
    struct piano__function *f = &registry.functions[count];
    f->name = copy_string(fn->name);
    f->file = f->name ? copy_string(fn->file) : NULL;
    if (!f->file)
        return -1;
    f->line = fn->line;
    f->flags = fn->flags;
    f->hash = hash;
    /* Pairs with the acquire in `piano__registry_count`. This order ensures that a fork in between
     * wastes a number but never assigns one twice. */
    __atomic_store_n(&registry.count, count + 1, __ATOMIC_RELEASE);
    registry.table[at] = count + 1;
    return count;
}

static bool make_tables_locked(void)
{
    if (!registry.functions)
        registry.functions = piano__memory_map(CAPACITY * sizeof *registry.functions);
    if (!registry.table)
        registry.table = piano__memory_map(TABLE * sizeof *registry.table);
    return registry.functions && registry.table;
}

static void register_locked(struct __piano_unit *unit)
{
    if (!make_tables_locked())
        return;
    if (!piano__runs_built_in && unit->runs_dir && *unit->runs_dir)
        piano__runs_built_in = copy_string(unit->runs_dir);
    if (!registry.frame_fn && unit->frame_fn && *unit->frame_fn)
        registry.frame_fn = copy_string(unit->frame_fn);
    for (uint32_t i = 0; i < unit->count; i++) {
        int64_t id = find_or_add_locked(&unit->fns[i]);
        if (id >= 0)
            unit->heads[i] = piano__head_offset((uint32_t)id);
    }
}

/* Spins, then sleeps between tries. Returns false if this thread is the holder, or after
 * WAIT_NS. */
static bool lock_registry(void)
{
    const struct timespec nap = {0, NAP_NS};
    int self = (int)syscall(SYS_gettid);
    int64_t deadline = 0;
    for (uint64_t i = 0;; i++) {
        int holder = 0;
        /* Pairs with the release in __piano_register() and piano__registry_forget(). */
        if (__atomic_compare_exchange_n(&registry.holder, &holder, self, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
        if (holder == self)
            return false;
        if (i < SPINS)
            continue;
        int64_t now = piano__monotonic_ns();
        if (deadline == 0)
            deadline = now + WAIT_NS;
        if (now >= deadline)
            return false;
        syscall(SYS_nanosleep, &nap, NULL); /* not nanosleep(): it is a cancellation point */
    }
}

void __piano_register(struct __piano_unit *unit)
{
    if (unit->version != __piano_abi)
        return;
    int saved = errno;
    bool locked = lock_registry();
    errno = saved;
    if (locked) {
        register_locked(unit);
        /* Pairs with the acquire in lock_registry(). */
        __atomic_store_n(&registry.holder, 0, __ATOMIC_RELEASE);
    } else {
        __atomic_fetch_add(&registry.refused, unit->count, __ATOMIC_RELAXED);
    }
    piano__run_prepare();
    piano__run_functions_added();
    if (!piano__alloc_place || !piano__alloc_own)
        return;
    piano__alloc_place();
    if (piano__run.header && piano__alloc_own().is_uncounted && !registry.counts_allocator)
        piano__run.header->dropped.allocators = 1;
}

/* Constructors run in any order: units may be registered before. */
void __piano_counts_allocator(void)
{
    registry.counts_allocator = true;
    if (piano__run.header)
        piano__run.header->dropped.allocators = 0;
}

void piano__registry_forget(void)
{
    /* Pairs with the acquire in lock_registry(). */
    __atomic_store_n(&registry.holder, 0, __ATOMIC_RELEASE);
}

/* The functions keep their numbers and names because their figures are still reported. */
void __piano_unregister(struct __piano_unit *unit)
{
    for (uint32_t i = 0; i < unit->count; i++)
        unit->heads[i] = 0;
}
