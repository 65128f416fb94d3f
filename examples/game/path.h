/* The tile map, and the shortest way across it. */
#ifndef GAME_PATH_H
#define GAME_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vec2.h"

enum { MAP_TILES = 64, TILE_SIZE = 16 };

struct map {
    bool wall[MAP_TILES][MAP_TILES]; /* [y][x] */
};

struct path {
    size_t length;
    struct vec2 steps[]; /* tile centres, the goal last */
};

static inline bool map_blocked(const struct map *map, struct vec2 at)
{
    if (at.x < 0.0f || at.y < 0.0f || at.x >= MAP_TILES * TILE_SIZE ||
        at.y >= MAP_TILES * TILE_SIZE)
        return true;
    return map->wall[(int)at.y / TILE_SIZE][(int)at.x / TILE_SIZE];
}

/* Allocates the path; NULL if there is none (or no memory). */
struct path *path_find(const struct map *map, struct vec2 from, struct vec2 to);

#endif
