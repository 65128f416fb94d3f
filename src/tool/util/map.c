/* Open addressing, at most half full. Removing a key leaves no tombstone: displaced keys move
 * back. Every map has a different seed, so that a crafted file cannot make all its keys collide. */
#include "tool/util/map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { LEAST = 256 };

static size_t home(const struct map *m, uint64_t key)
{
    uint64_t h = (key ^ m->seed) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53u;
    return (size_t)(h ^ h >> 29) & (m->size - 1);
}

uint32_t map_find(const struct map *m, uint64_t key)
{
    if (m->size == 0)
        return MAP_NONE;
    size_t at = home(m, key);
    for (; m->slots[at].value; at = (at + 1) & (m->size - 1))
        if (m->slots[at].key == key)
            return m->slots[at].value - 1;
    return MAP_NONE;
}

static void place(struct map *m, struct map_slot slot)
{
    size_t at = home(m, slot.key);
    while (m->slots[at].value)
        at = (at + 1) & (m->size - 1);
    m->slots[at] = slot;
}

int map_put(struct map *m, uint64_t key, uint32_t value)
{
    if ((m->count + 1) * 2 > m->size) {
        struct map more = {.size = m->size ? m->size * 2 : LEAST, .count = m->count};
        more.slots = calloc(more.size, sizeof(*more.slots));
        if (!more.slots)
            return -ENOMEM;
        if (getrandom(&more.seed, sizeof(more.seed), GRND_NONBLOCK) < 0)
            more.seed = (uintptr_t)more.slots;
        for (size_t i = 0; i < m->size; i++)
            if (m->slots[i].value)
                place(&more, m->slots[i]);
        free(m->slots);
        *m = more;
    }
    place(m, (struct map_slot){key, value + 1});
    m->count++;
    return 0;
}

void map_remove(struct map *m, uint64_t key)
{
    if (m->size == 0)
        return;
    size_t hole = home(m, key);
    while (m->slots[hole].value && m->slots[hole].key != key)
        hole = (hole + 1) & (m->size - 1);
    if (!m->slots[hole].value)
        return;
    for (size_t at = (hole + 1) & (m->size - 1); m->slots[at].value;
         at = (at + 1) & (m->size - 1)) {
        size_t from = home(m, m->slots[at].key);
        /* A key may fill the hole if the hole lies between its home slot and its current slot. */
        if (((at - from) & (m->size - 1)) >= ((at - hole) & (m->size - 1))) {
            m->slots[hole] = m->slots[at];
            hole = at;
        }
    }
    m->slots[hole].value = 0;
    m->count--;
}

void map_release(struct map *m)
{
    free(m->slots);
    memset(m, 0, sizeof(*m));
}

static uint64_t hash_seed(void)
{
    static uint64_t seed;
    uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED), none = 0;
    if (s)
        return s;
    if (getrandom(&s, sizeof(s), GRND_NONBLOCK) < 0)
        s = (uintptr_t)&none;
    s |= 1;
    /* Another thread may have drawn a seed meanwhile: then its seed is used. */
    bool first =
        __atomic_compare_exchange_n(&seed, &none, s, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return first ? s : none;
}

/* Both halves of the product count. The low half alone depends too little on the seed: texts can
 * be made that collide for every seed. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t map_hash(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t seed = hash_seed(), h = fold(seed ^ len, 0x9e3779b97f4a7c15u), word;
    for (; len >= sizeof(word); len -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        h = fold(h ^ word, seed);
    }
    word = 0;
    for (; len > 0; len--)
        word = word << 8 | at[len - 1];
    return fold(h ^ word, seed);
}
