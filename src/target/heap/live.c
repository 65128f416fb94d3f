/* Two structures: records, in the recording, and an index of them, in private memory.
 *
 * RECORDS are taken from a free list, else from the end. So the recording grows with the largest
 * number of blocks that were live at once, and not with time. The list is a stack. Its head
 * contains a counter, which detects that a record was popped and pushed in between (ABA).
 *
 * The INDEX has buckets of eight slots, one cache line each. A block may be in any slot of two
 * buckets, which its address selects. A slot is one word: 32 bits of hash, and the record's number
 * + 1. It changes only by CAS: from empty to full when the record is complete, and from full to
 * empty by the thread that removes it and then owns the record. There are no tombstones and no
 * chains, so a look-up always reads two cache lines.
 *
 * There are up to four such indexes, each sixteen times as large as the previous one. A block goes
 * into the first one with room, and the larger ones are neither written nor read before they are
 * needed. So few blocks need little memory and stay in the L1 cache. */
#include "target/heap/live.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"

enum {
    WAYS = 8,
    LEVELS = 4,
    FIRST_BUCKETS = 1 << 9, /* 4096 blocks, 32 KB */
    MAX_RECORD_CHUNKS = 8192,
};

#define ADDRESS_BITS 0xffffffffffffu

struct level {
    uint64_t *slots;
    uint64_t buckets; /* a power of two */
};

static struct {
    struct level levels[LEVELS];
    uint32_t level_count;
    uint32_t levels_used;
    uint64_t most;    /* limit on the number of records */
    uint64_t used;    /* records ever taken from the end */
    uint64_t free;    /* head of the free list: counter << 32 | number + 1 */
    uint32_t ready;   /* number of record chunks */
    uint32_t growing; /* lock for adding a chunk */
    struct piano__live *chunks[MAX_RECORD_CHUNKS];
} live;

static size_t level_bytes(const struct level *level)
{
    return level->buckets * WAYS * sizeof *level->slots;
}

bool piano__live_init(uint64_t records)
{
    uint64_t room = 0;
    uint64_t most = (uint64_t)MAX_RECORD_CHUNKS * PIANO_LIVE_PER_CHUNK;
    live.most = records < most ? records : most;
    while (room < live.most && live.level_count < LEVELS) {
        struct level *level = &live.levels[live.level_count];
        level->buckets = (uint64_t)FIRST_BUCKETS << 4 * live.level_count;
        level->slots = piano__memory_map(level_bytes(level));
        if (!level->slots)
            return false;
        room += level->buckets * WAYS;
        live.level_count++;
    }
    live.levels_used = 1;
    return true;
}

void piano__live_forget(void)
{
    for (uint32_t i = 0; i < live.level_count; i++)
        piano__memory_unmap(live.levels[i].slots, level_bytes(&live.levels[i]));
    memset(&live, 0, sizeof live);
}

static struct piano__live *record_at(uint64_t number)
{
    /* Pairs with the release in grow(): the chunk is mapped. */
    struct piano__live *chunk =
        __atomic_load_n(&live.chunks[number / PIANO_LIVE_PER_CHUNK], __ATOMIC_ACQUIRE);
    return &chunk[number % PIANO_LIVE_PER_CHUNK];
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

/* The two buckets of a hash, and the upper half of its slots. */
struct place {
    uint64_t *bucket[2];
    uint64_t tag;
};

static struct place place_of(const struct level *level, uint64_t hash)
{
    uint64_t mask = level->buckets - 1;
    uint64_t first = hash & mask;
    uint64_t second = (first ^ (hash >> 32) * 0x9e3779b1u) & mask;
    return (struct place){{level->slots + first * WAYS, level->slots + second * WAYS},
                          hash & ~(uint64_t)UINT32_MAX};
}

static uint64_t pop_free(void)
{
    /* Pairs with the release part of the CAS in push_free(): `next` is set. */
    uint64_t head = __atomic_load_n(&live.free, __ATOMIC_ACQUIRE);
    for (;;) {
        uint64_t number = head & UINT32_MAX;
        if (number == 0)
            return 0;
        /* Another thread may pop the record and change `next`. Then the counter has changed, and
         * the CAS fails. Its acquire pairs with push_free(), as above; its release keeps the
         * release sequence of the pushes before it. */
        uint64_t next = __atomic_load_n(&record_at(number - 1)->next, __ATOMIC_RELAXED);
        uint64_t fresh = ((head >> 32) + 1) << 32 | (next & UINT32_MAX);
        if (__atomic_compare_exchange_n(&live.free, &head, fresh, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return number;
    }
}

/* The upper half of `next` counts the uses of the record. */
static void push_free(uint64_t number)
{
    struct piano__live *r = record_at(number - 1);
    uint64_t uses = __atomic_load_n(&r->next, __ATOMIC_RELAXED) >> 32 << 32;
    uint64_t head = __atomic_load_n(&live.free, __ATOMIC_RELAXED);
    uint64_t fresh;
    do {
        __atomic_store_n(&r->next, uses | (head & UINT32_MAX), __ATOMIC_RELAXED);
        fresh = ((head >> 32) + 1) << 32 | number;
        /* Pairs with the acquire in pop_free(). */
    } while (!__atomic_compare_exchange_n(&live.free, &head, fresh, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
}

static bool grow(void)
{
    if (!piano__lock_try(&live.growing))
        return false;
    uint32_t at = live.ready;
    struct piano__chunk *c = NULL;
    if (at < MAX_RECORD_CHUNKS &&
        __atomic_load_n(&live.used, __ATOMIC_RELAXED) >= (uint64_t)at * PIANO_LIVE_PER_CHUNK)
        c = piano__recording_claim(PIANO_CHUNK_LIVE, at);
    if (c) {
        /* Pairs with the acquire in record_at(). */
        __atomic_store_n(&live.chunks[at], (struct piano__live *)(void *)(c + 1), __ATOMIC_RELEASE);
        /* Pairs with the acquire in take_record() and piano__live_records(). */
        __atomic_store_n(&live.ready, at + 1, __ATOMIC_RELEASE);
    }
    piano__lock_release(&live.growing);
    return c != NULL;
}

bool piano__live_prepare(void)
{
    return grow();
}

/* Returns the number of a free record + 1, or a negative errno. */
static int64_t take_record(void)
{
    uint64_t number = pop_free();
    if (number)
        return (int64_t)number;
    uint64_t used = __atomic_load_n(&live.used, __ATOMIC_RELAXED);
    do {
        if (used >= live.most)
            return -ENOSPC;
        /* Pairs with the release in grow(). */
        uint32_t ready = __atomic_load_n(&live.ready, __ATOMIC_ACQUIRE);
        if (used >= (uint64_t)ready * PIANO_LIVE_PER_CHUNK && !grow() &&
            used >= (uint64_t)__atomic_load_n(&live.ready, __ATOMIC_ACQUIRE) * PIANO_LIVE_PER_CHUNK)
            return -ENOMEM;
    } while (!__atomic_compare_exchange_n(&live.used, &used, used + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    return (int64_t)used + 1;
}

static void fill(uint64_t number, const struct piano__block *b)
{
    struct piano__live *r = record_at(number - 1);
    uint64_t next = __atomic_load_n(&r->next, __ATOMIC_RELAXED) + ((uint64_t)1 << 32);
    /* Pairs with the acquire fence of the readers. A reader that sees a field of this use also sees
     * that empty() has ended the previous use. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&r->next, next, __ATOMIC_RELAXED);
    __atomic_store_n(&r->size, b->size, __ATOMIC_RELAXED);
    __atomic_store_n(&r->rate, b->rate, __ATOMIC_RELAXED);
    __atomic_store_n(&r->birth_ns, b->birth_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&r->stack, b->stack, __ATOMIC_RELAXED);
    __atomic_store_n(&r->thread, b->thread, __ATOMIC_RELAXED);
    uint64_t key = (b->address & ADDRESS_BITS) | next >> 32 << 48;
    /* Pairs with the acquire in is_block() and piano__live_read(): the fields are set. */
    __atomic_store_n(&r->key, key, __ATOMIC_RELEASE);
}

static void empty(uint64_t number)
{
    /* Pairs with the acquire load of `key` by readers. */
    __atomic_store_n(&record_at(number - 1)->key, 0, __ATOMIC_RELEASE);
    push_free(number);
}

static unsigned count_empty(const uint64_t *bucket)
{
    unsigned count = 0;
    for (int i = 0; i < WAYS; i++)
        count += __atomic_load_n(&bucket[i], __ATOMIC_RELAXED) == 0;
    return count;
}

static bool put(uint64_t *bucket, uint64_t slot)
{
    for (int i = 0; i < WAYS; i++) {
        uint64_t none = 0;
        /* Pairs with the acquire in remove_from_level(): the record is complete. */
        if (__atomic_load_n(&bucket[i], __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&bucket[i], &none, slot, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

static bool put_in_level(const struct level *level, uint64_t hash, uint64_t number)
{
    struct place place = place_of(level, hash);
    uint64_t slot = place.tag | number;
    int first = count_empty(place.bucket[1]) > count_empty(place.bucket[0]);
    return put(place.bucket[first], slot) || put(place.bucket[!first], slot);
}

/* Called before a block is put into level I, so that a look-up does not stop too early. Pairs with
 * the acquire in piano__live_remove(). */
static void use_level(uint32_t i)
{
    uint32_t used = __atomic_load_n(&live.levels_used, __ATOMIC_RELAXED);
    while (used <= i && !__atomic_compare_exchange_n(&live.levels_used, &used, i + 1, true,
                                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

int piano__live_insert(const struct piano__block *block)
{
    int64_t number = take_record();
    if (number < 0)
        return (int)number;
    fill((uint64_t)number, block);
    uint64_t hash = mix(block->address);
    for (uint32_t i = 0; i < live.level_count; i++) {
        use_level(i);
        if (put_in_level(&live.levels[i], hash, (uint64_t)number))
            return 0;
    }
    empty((uint64_t)number);
    return -ENOSPC;
}

static bool is_block(uint64_t number, uint64_t address)
{
    /* Pairs with the release in fill(). */
    uint64_t key = __atomic_load_n(&record_at(number - 1)->key, __ATOMIC_ACQUIRE);
    return ((key ^ address) & ADDRESS_BITS) == 0;
}

static void read_record(uint64_t number, uint64_t address, struct piano__block *b)
{
    const struct piano__live *r = record_at(number - 1);
    b->address = address;
    b->size = __atomic_load_n(&r->size, __ATOMIC_RELAXED);
    b->rate = __atomic_load_n(&r->rate, __ATOMIC_RELAXED);
    b->birth_ns = __atomic_load_n(&r->birth_ns, __ATOMIC_RELAXED);
    b->stack = __atomic_load_n(&r->stack, __ATOMIC_RELAXED);
    b->thread = __atomic_load_n(&r->thread, __ATOMIC_RELAXED);
}

static bool remove_from_level(const struct level *level, uint64_t hash, uint64_t address,
                              struct piano__block *block)
{
    struct place place = place_of(level, hash);
    for (int i = 0; i < 2 * WAYS; i++) {
        uint64_t *at = &place.bucket[i / WAYS][i % WAYS];
        /* Pairs with the release in put(): the record is complete. */
        uint64_t slot = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        uint64_t number = slot & UINT32_MAX;
        if (number == 0 || (slot ^ number) != place.tag || !is_block(number, address))
            continue;
        /* If the CAS fails, another thread has freed the same block (a bug of the program) and owns
         * the record. */
        if (!__atomic_compare_exchange_n(at, &slot, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        read_record(number, address, block);
        empty(number);
        return true;
    }
    return false;
}

bool piano__live_remove(uint64_t address, struct piano__block *block)
{
    uint64_t hash = mix(address);
    /* Pairs with the release in use_level(). */
    uint32_t used = __atomic_load_n(&live.levels_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++)
        if (remove_from_level(&live.levels[i], hash, address, block))
            return true;
    return false;
}

uint64_t piano__live_records(void)
{
    /* Pairs with the CAS in take_record(). */
    uint64_t used = __atomic_load_n(&live.used, __ATOMIC_ACQUIRE);
    uint64_t ready =
        (uint64_t)__atomic_load_n(&live.ready, __ATOMIC_ACQUIRE) * PIANO_LIVE_PER_CHUNK;
    return used < ready ? used : ready;
}

bool piano__live_read(uint64_t number, struct piano__block *block)
{
    const uint64_t *key = &record_at(number)->key;
    /* Pairs with the release in fill(). */
    uint64_t before = __atomic_load_n(key, __ATOMIC_ACQUIRE);
    if (before == 0)
        return false;
    read_record(number + 1, before & ADDRESS_BITS, block);
    /* Pairs with the release fence in fill(). Orders the fields before the second load of `key`. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(key, __ATOMIC_RELAXED) == before;
}

uint64_t piano__live_room(void)
{
    return live.most;
}

#ifdef PIANO_CHECK
static bool is_free_list_valid(uint64_t *count)
{
    uint64_t number = live.free & UINT32_MAX;
    for (*count = 0; number; ++*count) {
        /* A list that is longer than the table has a cycle. */
        if (number > live.used || *count == live.used || record_at(number - 1)->key != 0)
            return false;
        number = record_at(number - 1)->next & UINT32_MAX;
    }
    return true;
}

static bool is_slot_valid(const struct level *level, uint64_t bucket, uint64_t slot)
{
    uint64_t number = slot & UINT32_MAX;
    if (number == 0 || number > live.used || record_at(number - 1)->key == 0)
        return false;
    struct place place = place_of(level, mix(record_at(number - 1)->key & ADDRESS_BITS));
    const uint64_t *at = level->slots + bucket * WAYS;
    return (slot ^ number) == place.tag && (at == place.bucket[0] || at == place.bucket[1]);
}

static bool is_level_valid(const struct level *level, uint64_t *count)
{
    for (uint64_t i = 0; i < level->buckets * WAYS; i++) {
        if (level->slots[i] == 0)
            continue;
        if (!is_slot_valid(level, i / WAYS, level->slots[i]))
            return false;
        ++*count;
    }
    return true;
}

/* Returns whether a slot leads to the record. */
static bool is_indexed(uint64_t number)
{
    uint64_t hash = mix(record_at(number - 1)->key & ADDRESS_BITS);
    for (uint32_t level = 0; level < live.levels_used; level++) {
        struct place place = place_of(&live.levels[level], hash);
        for (int i = 0; i < 2 * WAYS; i++)
            if (place.bucket[i / WAYS][i % WAYS] == (place.tag | number))
                return true;
    }
    return false;
}

bool piano__live_is_valid(void)
{
    uint64_t free, indexed = 0;
    if (live.level_count > LEVELS || live.levels_used > live.level_count ||
        live.ready > MAX_RECORD_CHUNKS || live.used > live.most ||
        live.used > (uint64_t)live.ready * PIANO_LIVE_PER_CHUNK || !is_free_list_valid(&free))
        return false;
    for (uint32_t i = 0; i < live.levels_used; i++)
        if (!is_level_valid(&live.levels[i], &indexed))
            return false;
    for (uint64_t number = 1; number <= live.used; number++)
        if (record_at(number - 1)->key != 0 && !is_indexed(number))
            return false;
    return free + indexed == live.used;
}
#endif
