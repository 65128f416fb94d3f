/* A* over the tile map, four ways from a tile, with a binary heap of open tiles. A tile may be in
 * the heap more than once; the stale entries are skipped when they come up. */
#include "path.h"

#include <stdlib.h>
#include <string.h>

enum { TILES = MAP_TILES * MAP_TILES, UNREACHED = UINT16_MAX };

struct open_tile {
    uint16_t rank; /* steps so far + lower bound of the remaining steps */
    uint16_t tile;
};

struct search {
    const struct map *map;
    uint16_t goal;
    uint16_t steps[TILES]; /* from the start */
    uint16_t came_from[TILES];
    struct open_tile heap[4 * TILES]; /* a tile is pushed at most once from each side */
    size_t open;
};

static uint16_t estimate(uint16_t a, uint16_t b)
{
    return (uint16_t)(abs(a % MAP_TILES - b % MAP_TILES) + abs(a / MAP_TILES - b / MAP_TILES));
}

static void heap_push(struct search *search, struct open_tile item)
{
    size_t at = search->open++;
    while (at > 0 && search->heap[(at - 1) / 2].rank > item.rank) {
        search->heap[at] = search->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    search->heap[at] = item;
}

static struct open_tile heap_pop(struct search *search)
{
    struct open_tile *heap = search->heap;
    struct open_tile top = heap[0], last = heap[--search->open];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= search->open)
            break;
        if (child + 1 < search->open && heap[child + 1].rank < heap[child].rank)
            child++;
        if (heap[child].rank >= last.rank)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static void reach(struct search *search, uint16_t tile, uint16_t from, uint16_t steps)
{
    if (search->map->wall[tile / MAP_TILES][tile % MAP_TILES] || steps >= search->steps[tile])
        return;
    search->steps[tile] = steps;
    search->came_from[tile] = from;
    uint16_t rank = (uint16_t)(steps + estimate(tile, search->goal));
    heap_push(search, (struct open_tile){rank, tile});
}

static bool explore(struct search *search)
{
    while (search->open > 0) {
        struct open_tile next = heap_pop(search);
        uint16_t tile = next.tile, steps = search->steps[tile];
        if (tile == search->goal)
            return true;
        if (next.rank > steps + estimate(tile, search->goal))
            continue; /* stale: a shorter way was found since */
        /* The border is all wall, so no neighbour falls off the map. */
        reach(search, (uint16_t)(tile - 1), tile, (uint16_t)(steps + 1));
        reach(search, (uint16_t)(tile + 1), tile, (uint16_t)(steps + 1));
        reach(search, (uint16_t)(tile - MAP_TILES), tile, (uint16_t)(steps + 1));
        reach(search, (uint16_t)(tile + MAP_TILES), tile, (uint16_t)(steps + 1));
    }
    return false;
}

static struct path *walk_back(const struct search *search)
{
    size_t length = search->steps[search->goal];
    struct path *path = malloc(sizeof *path + length * sizeof path->steps[0]);
    if (!path)
        return NULL;
    path->length = length;
    uint16_t tile = search->goal;
    for (size_t i = length; i-- > 0; tile = search->came_from[tile])
        path->steps[i] = (struct vec2){((float)(tile % MAP_TILES) + 0.5f) * TILE_SIZE,
                                       ((float)(tile / MAP_TILES) + 0.5f) * TILE_SIZE};
    return path;
}

static uint16_t tile_at(struct vec2 at)
{
    return (uint16_t)((int)at.y / TILE_SIZE * MAP_TILES + (int)at.x / TILE_SIZE);
}

struct path *path_find(const struct map *map, struct vec2 from, struct vec2 to)
{
    if (map_blocked(map, from) || map_blocked(map, to))
        return NULL;
    struct search *search = malloc(sizeof *search);
    if (!search)
        return NULL;
    search->map = map;
    search->goal = tile_at(to);
    search->open = 0;
    memset(search->steps, 0xff, sizeof search->steps); /* UNREACHED */
    reach(search, tile_at(from), tile_at(from), 0);
    struct path *path = explore(search) ? walk_back(search) : NULL;
    free(search);
    return path;
}
