/* Tables of levels.c: threads by number, and calls by thread, depth, caller and root. */
#include "tool/load/levels.h"

#include <stdlib.h>

#include "tool/util/vec.h"

struct lane *levels_lane(struct levels *v, uint32_t number)
{
    uint32_t at = map_find(&v->known, number);
    if (at == MAP_NONE) {
        at = (uint32_t)v->lane_count;
        if (VEC_DOUBLE(v->lanes, v->lane_count) != 0 || map_put(&v->known, number, at) != 0)
            return NULL;
        v->lanes[v->lane_count++] = (struct lane){
            .number = number, .level = UINT32_MAX, .under = RUN_NO_FN, .under_wall = -1};
    }
    return &v->lanes[at];
}

static bool is_same(const struct cell *a, const struct cell *b)
{
    return a->place == b->place && a->under == b->under && a->root == b->root;
}

struct cell *levels_cell(struct cells *t, const struct cell *key)
{
    const uint64_t words[] = {key->place, (uint64_t)key->under << 32 | key->root};
    uint64_t hash = map_hash(words, sizeof(words));
    uint32_t at;
    while ((at = map_find(&t->known, hash)) != MAP_NONE && !is_same(&t->list[at], key))
        hash++;
    if (at == MAP_NONE) {
        at = (uint32_t)t->count;
        if (VEC_DOUBLE(t->list, t->count) != 0 || map_put(&t->known, hash, at) != 0)
            return NULL;
        t->list[t->count++] = *key;
    }
    return &t->list[at];
}

void levels_release(struct cells *t)
{
    map_release(&t->known);
    free(t->list);
}
