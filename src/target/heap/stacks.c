/* A stack is looked up by its hash in an open-addressing index (private memory), and compared frame
 * by frame with the record in the recording. A new stack is added under a lock with a timeout
 * (sys/lock.h). On timeout, the sample is attributed to stack 0. An entry of the index is published
 * when everything it leads to is complete, so look-ups need no lock.
 *
 * A new stack also adds the modules of its frames (record/modules.h). Their generation is part of
 * its identity. */
#include "target/heap/stacks.h"

#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "target/record/modules.h"
#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"
#include "target/sys/recording.h"

enum { MAX_STACKS = 1 << 18 };

struct entry {
    uint64_t hash; /* 0: empty */
    struct piano__stack *stack;
};

static struct {
    struct entry *index;
    struct piano__stack **by_id;
    uint32_t places; /* a power of two */
    uint32_t most;
    uint32_t count;
    uint32_t lock;
    struct piano__log log;
    struct piano__totals *totals[MAX_STACKS / PIANO_TOTALS_PER_CHUNK + 1];
} stacks;

static struct piano__totals *make_totals(uint32_t chunk)
{
    struct piano__chunk *c = piano__recording_claim(PIANO_CHUNK_TOTALS, chunk);
    if (!c)
        return NULL;
    /* Pairs with the acquire in piano__stacks_totals(): the chunk is mapped. */
    __atomic_store_n(&stacks.totals[chunk], (struct piano__totals *)(void *)(c + 1),
                     __ATOMIC_RELEASE);
    return stacks.totals[chunk];
}

bool piano__stacks_init(uint32_t most)
{
    stacks.most = most < MAX_STACKS ? most : MAX_STACKS - 1;
    stacks.places = 1024;
    while (stacks.places < 2 * stacks.most)
        stacks.places *= 2;
    stacks.index = piano__memory_map(stacks.places * sizeof *stacks.index);
    stacks.by_id = piano__memory_map(stacks.most * sizeof *stacks.by_id);
    return stacks.index && stacks.by_id && make_totals(0);
}

void piano__stacks_forget(void)
{
    if (stacks.index)
        piano__memory_unmap(stacks.index, stacks.places * sizeof *stacks.index);
    if (stacks.by_id)
        piano__memory_unmap(stacks.by_id, stacks.most * sizeof *stacks.by_id);
    memset(&stacks, 0, sizeof stacks);
}

struct piano__totals *piano__stacks_totals(uint32_t id)
{
    /* Pairs with the release in make_totals(). */
    struct piano__totals *chunk =
        __atomic_load_n(&stacks.totals[id / PIANO_TOTALS_PER_CHUNK], __ATOMIC_ACQUIRE);
    return &chunk[id % PIANO_TOTALS_PER_CHUNK];
}

const struct piano__stack *piano__stacks_record(uint32_t id)
{
    /* Pairs with the release in add_locked(): the record is complete. */
    return stacks.by_id && id < stacks.most ? __atomic_load_n(&stacks.by_id[id], __ATOMIC_ACQUIRE)
                                            : NULL;
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static struct piano__heap_stats *stats(void)
{
    return &piano__recording.view.header->stats;
}

static bool try_lock(void)
{
    return piano__lock_try(&stacks.lock);
}

static void unlock(void)
{
    piano__lock_release(&stacks.lock);
}

static uint64_t hash_of(const struct piano__walk *walk, uint32_t generation)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ (uint64_t)generation << 32 ^ walk->flags;
    for (uint32_t i = 0; i < walk->depth; i++) {
        hash = (hash ^ walk->pcs[i]) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
    }
    return hash ? hash : 1;
}

static bool is_same(const struct piano__stack *s, const struct piano__walk *walk,
                    uint32_t generation)
{
    return s->depth == walk->depth && s->flags == walk->flags && s->generation == generation &&
           memcmp(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]) == 0;
}

/* Returns the stack, or NULL. Then *PLACE is the empty entry for it, or NULL if the index is
 * full. */
static struct piano__stack *find(const struct piano__walk *walk, uint64_t hash, uint32_t generation,
                                 struct entry **place)
{
    for (uint32_t i = 0; i < stacks.places; i++) {
        struct entry *e = &stacks.index[((uint32_t)(hash >> 32) + i) & (stacks.places - 1)];
        *place = e;
        /* Pairs with the release in add(): the stack is complete. */
        uint64_t theirs = __atomic_load_n(&e->hash, __ATOMIC_ACQUIRE);
        if (theirs == 0)
            return NULL;
        if (theirs == hash && is_same(e->stack, walk, generation))
            return e->stack;
        count(&stats()->collisions);
    }
    *place = NULL;
    return NULL;
}

/* Adds the record and its sums. Returns NULL if there is no room. */
static struct piano__stack *add_locked(const struct piano__walk *walk, uint64_t hash,
                                       uint32_t generation)
{
    uint32_t id = stacks.count + 1;
    uint32_t bytes = (uint32_t)(sizeof(struct piano__stack) + walk->depth * sizeof(uint64_t));
    if (id >= stacks.most)
        return NULL;
    if (!stacks.totals[id / PIANO_TOTALS_PER_CHUNK] && !make_totals(id / PIANO_TOTALS_PER_CHUNK))
        return NULL;
    struct piano__stack *s = piano__log_room(&stacks.log, PIANO_CHUNK_STACKS, bytes);
    if (!s)
        return NULL;
    if (!piano__modules_note_all(walk->pcs, walk->depth))
        return NULL;
    *s = (struct piano__stack){.bytes = bytes,
                               .id = id,
                               .flags = walk->flags,
                               .depth = walk->depth,
                               .generation = generation,
                               .hash = hash};
    memcpy(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]);
    /* Rule 4: first, so that a handler that jumps away in between wastes a number, but no number is
     * used twice. */
    __atomic_store_n(&stacks.count, id, __ATOMIC_RELEASE);
    piano__log_commit(&stacks.log, bytes);
    /* Pairs with the acquire in piano__stacks_record(). */
    __atomic_store_n(&stacks.by_id[id], s, __ATOMIC_RELEASE);
    return s;
}

bool piano__stacks_prepare(const struct piano__walk *walk)
{
    (void)piano__modules_note_all(walk->pcs, walk->depth);
    piano__modules_note(getauxval(AT_ENTRY)); /* the program itself, which has not started yet */
    return piano__log_room(&stacks.log, PIANO_CHUNK_STACKS, 0) != NULL;
}

static uint32_t add(const struct piano__walk *walk, uint64_t hash, uint32_t generation)
{
    if (!try_lock())
        return 0;
    struct entry *place;
    /* Look up again under the lock: another thread may have added it. */
    struct piano__stack *s = find(walk, hash, generation, &place);
    if (!s && place) {
        s = add_locked(walk, hash, generation);
        if (s) {
            place->stack = s;
            count(&stats()->stacks);
            /* Pairs with the acquire in find(). */
            __atomic_store_n(&place->hash, hash, __ATOMIC_RELEASE);
        }
    }
    uint32_t id = s ? s->id : 0;
    unlock();
    return id;
}

uint32_t piano__stacks_intern(const struct piano__walk *walk)
{
    uint32_t generation = piano__modules_generation(walk->pcs, walk->depth);
    uint64_t hash = hash_of(walk, generation);
    struct entry *place;
    const struct piano__stack *s = find(walk, hash, generation, &place);
    uint32_t id = s ? s->id : place ? add(walk, hash, generation) : 0;
    if (id == 0)
        count(&stats()->dropped_stacks);
    return id;
}

#ifdef PIANO_CHECK
static bool is_record_valid(const struct piano__stack *s, uint32_t id)
{
    if (s->id != id || id > stacks.count || s->depth > PIANO_MAX_FRAMES ||
        s->bytes != sizeof *s + s->depth * sizeof s->pcs[0] ||
        !stacks.totals[id / PIANO_TOTALS_PER_CHUNK])
        return false;
    struct piano__walk walk = {.flags = s->flags, .depth = s->depth};
    memcpy(walk.pcs, s->pcs, s->depth * sizeof s->pcs[0]);
    return hash_of(&walk, (uint32_t)s->generation) == s->hash;
}

/* A look-up of the stack must come to the entry before it comes to an empty one. */
static bool is_entry_valid(uint32_t at)
{
    const struct entry *e = &stacks.index[at];
    if (!e->stack || e->stack->hash != e->hash || e->stack->id == 0 ||
        e->stack->id >= stacks.most || stacks.by_id[e->stack->id] != e->stack)
        return false;
    uint32_t first = (uint32_t)(e->hash >> 32) & (stacks.places - 1);
    for (uint32_t i = first; i != at; i = (i + 1) & (stacks.places - 1))
        if (stacks.index[i].hash == 0)
            return false;
    return true;
}

/* A number may be without a stack, and a stack without an entry: a handler may jump out of
 * add_locked(). */
static bool is_valid_locked(void)
{
    uint32_t known = 0, indexed = 0;
    if (stacks.count >= stacks.most || stacks.by_id[0])
        return false;
    for (uint32_t id = 1; id < stacks.most; id++) {
        if (stacks.by_id[id] && !is_record_valid(stacks.by_id[id], id))
            return false;
        known += stacks.by_id[id] != NULL;
    }
    for (uint32_t at = 0; at < stacks.places; at++) {
        if (stacks.index[at].hash != 0 && !is_entry_valid(at))
            return false;
        indexed += stacks.index[at].hash != 0;
    }
    return indexed <= known;
}

bool piano__stacks_is_valid(void)
{
    if (!stacks.index || !stacks.by_id || !try_lock())
        return true;
    bool is_valid = is_valid_locked();
    unlock();
    return is_valid;
}
#endif
