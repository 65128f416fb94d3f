/* Hash tables of levels.c: threads by number, and calls by thread, depth, caller and root. Open
 * addressing, at most half full. */
#include "tool/load/levels.h"

#include <stdlib.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static struct lane *lane_slot(struct lane *lanes, size_t cap, uint32_t number)
{
    size_t i = mix(number) & (cap - 1);
    while (lanes[i].used && lanes[i].number != number)
        i = (i + 1) & (cap - 1);
    return &lanes[i];
}

struct lane *levels_lane(struct levels *v, uint32_t number)
{
    if (v->lane_count * 2 >= v->lane_cap) {
        size_t cap = v->lane_cap ? v->lane_cap * 2 : 64;
        struct lane *more = calloc(cap, sizeof(*more));
        if (!more)
            return NULL;
        for (size_t i = 0; i < v->lane_cap; i++)
            if (v->lanes[i].used)
                *lane_slot(more, cap, v->lanes[i].number) = v->lanes[i];
        free(v->lanes);
        v->lanes = more;
        v->lane_cap = cap;
    }
    struct lane *l = lane_slot(v->lanes, v->lane_cap, number);
    if (!l->used) {
        *l = (struct lane){
            .number = number, .used = 1, .level = UINT32_MAX, .under = RUN_NO_FN, .under_wall = -1};
        v->lane_count++;
    }
    return l;
}

static uint64_t cell_hash(const struct cell *key)
{
    return mix(mix(key->place) + ((uint64_t)key->under << 32 | key->root));
}

static struct cell *cell_slot(struct cell *slots, size_t cap, const struct cell *key)
{
    size_t i = cell_hash(key) & (cap - 1);
    while (slots[i].used && (slots[i].place != key->place || slots[i].under != key->under ||
                             slots[i].root != key->root))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

struct cell *levels_cell(struct cells *t, const struct cell *key)
{
    if (t->count * 2 >= t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        struct cell *more = calloc(cap, sizeof(*more));
        if (!more)
            return NULL;
        for (size_t i = 0; i < t->cap; i++)
            if (t->slots[i].used)
                *cell_slot(more, cap, &t->slots[i]) = t->slots[i];
        free(t->slots);
        t->slots = more;
        t->cap = cap;
    }
    struct cell *c = cell_slot(t->slots, t->cap, key);
    if (!c->used) {
        *c = *key;
        c->used = true;
        t->count++;
    }
    return c;
}
