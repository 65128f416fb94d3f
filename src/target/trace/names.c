/* An open-addressing hash table of pointers to the records in the recording. Entries are added
 * under a lock and published by a release store. They never change and are never removed.
 *
 * Most names are literals, which have the same address each time. A small cache by address has the
 * record that was last found there. The text is still compared, since a buffer may contain another
 * name by now. So the cache saves only the hash. */
#include "target/trace/names.h"

#include <stddef.h>
#include <string.h>

#include "common/recording.h"
#include "target/record/modules.h"
#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"
#include "target/record/stats.h"

enum { CACHED = 512 };

static struct {
    struct piano__name **index;
    uint32_t places; /* a power of two */
    uint32_t most;
    uint32_t count;
    uint32_t lock;
    struct piano__log log;
    struct piano__name *cache[CACHED];
} names;

bool piano__names_init(uint32_t most)
{
    names.most = most;
    names.places = 64;
    while (names.places < 2 * most)
        names.places *= 2;
    names.index = piano__memory_map(names.places * sizeof *names.index);
    return names.index && piano__log_room(&names.log, PIANO_CHUNK_NAMES, 0);
}

void piano__names_forget(void)
{
    if (names.index)
        piano__memory_unmap(names.index, names.places * sizeof *names.index);
    memset(&names, 0, sizeof names);
}

/* Returns how many bytes of NAME are used. Does not cut inside a multi-byte character. */
static size_t length_of(const char *name)
{
    size_t len = strnlen(name, PIANO_NAME_BYTES + 1);
    if (len <= PIANO_NAME_BYTES)
        return len;
    len = PIANO_NAME_BYTES;
    for (int i = 0; i < 3 && ((unsigned char)name[len] & 0xc0) == 0x80; i++)
        len--;
    return len;
}

static bool is_same(const struct piano__name *record, const char *name)
{
    const char *text = record->text;
    size_t i = 0;
    while (text[i] && text[i] == name[i])
        i++;
    /* The last case: the record is truncated. */
    return text[i] == name[i] || (!text[i] && i > PIANO_NAME_BYTES - 4 && i == length_of(name));
}

static uint32_t hash_of(const char *name, size_t len)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32);
}

/* Returns the place of the name, or the empty place for it; NULL if there is neither. */
static struct piano__name **find(const char *name, uint32_t hash)
{
    for (uint32_t i = 0; i < names.places; i++) {
        struct piano__name **place = &names.index[(hash + i) & (names.places - 1)];
        /* Pairs with the release in add(). */
        const struct piano__name *record = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!record || is_same(record, name))
            return place;
    }
    return NULL;
}

static struct piano__name *add_locked(const char *name, size_t len)
{
    uint32_t bytes = (uint32_t)(sizeof(struct piano__name) + len + 1 + 7) & ~7u;
    struct piano__name *record =
        names.count < names.most ? piano__log_room(&names.log, PIANO_CHUNK_NAMES, bytes) : NULL;
    if (!record)
        return NULL;
    record->bytes = bytes;
    record->id = names.count + 1;
    memcpy(record->text, name, len);
    record->text[len] = '\0';
    /* Rule 4: first, so that a handler that jumps away in between wastes a number, but no number is
     * used twice. */
    __atomic_store_n(&names.count, names.count + 1, __ATOMIC_RELEASE);
    piano__log_commit(&names.log, bytes);
    return record;
}

/* Adds a name. FUNCTION is the address in the name; 0: none. Its module is recorded before the
 * name. */
static struct piano__name *add(const char *name, size_t len, uint32_t hash, uintptr_t function)
{
    if (function)
        piano__modules_note(function);
    if (!piano__lock_try(&names.lock))
        return NULL;
    /* Look up again under the lock: another thread may have added it. */
    struct piano__name **place = find(name, hash);
    struct piano__name *record = place ? *place : NULL;
    if (place && !record) {
        record = add_locked(name, len);
        /* Pairs with the acquire in find() and look_up(): the record is complete. */
        __atomic_store_n(place, record, __ATOMIC_RELEASE);
    }
    piano__lock_release(&names.lock);
    return record;
}

static struct piano__name *look_up(const char *name, uintptr_t function)
{
    size_t len = length_of(name);
    uint32_t hash = hash_of(name, len);
    struct piano__name **place = find(name, hash);
    /* Pairs with the release in add(). */
    struct piano__name *record = place ? __atomic_load_n(place, __ATOMIC_ACQUIRE) : NULL;
    return record ? record : add(name, len, hash, function);
}

uint32_t piano__names_intern(const char *name)
{
    return piano__names_intern_at(name, 0);
}

uint32_t piano__names_intern_at(const char *name, uintptr_t function)
{
    if (!name || !names.index)
        return 0;
    uintptr_t at = (uintptr_t)name;
    struct piano__name **cached = &names.cache[(at ^ at >> 9) % CACHED];
    /* Pairs with the release below. */
    struct piano__name *record = __atomic_load_n(cached, __ATOMIC_ACQUIRE);
    if (record && is_same(record, name))
        return record->id;
    record = look_up(name, function);
    if (!record) {
        piano__trace_add(&piano__trace_stats()->dropped_names, 1);
        return 0;
    }
    /* Pairs with the acquire above. */
    __atomic_store_n(cached, record, __ATOMIC_RELEASE);
    return record->id;
}
