/* The world: a walled square full of rocks, critters that drift about, and hunters after them. */
#ifndef GAME_WORLD_H
#define GAME_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "grid.h"
#include "particles.h"
#include "path.h"
#include "rng.h"
#include "vec2.h"

enum {
    WORLD_SIZE = MAP_TILES * TILE_SIZE,
    ENTITY_COUNT = 8000,
    HUNTER_COUNT = 120,
    ROCK_COUNT = 300
};

enum kind { KIND_ROCK, KIND_CRITTER, KIND_HUNTER };

struct entity {
    struct vec2 pos;
    struct vec2 vel;
    float radius;
    enum kind kind;
    unsigned look;     /* which of the sprites of its region it wears */
    struct path *path; /* hunters only; NULL when it has nowhere to go */
    size_t path_at;
};

struct world {
    struct rng rng;
    unsigned frame;
    struct vec2 camera; /* centre of the picture */
    struct entity *entities;
    size_t entity_count;
    struct map map;
    struct grid grid;
    struct particles particles;
};

struct world *world_create(unsigned seed);
void world_free(struct world *world);

/* One tick of everything that is not drawing. */
void update(struct world *world);

/* The parts of a tick. */
void ai_think(struct world *world);
void physics_step(struct world *world);

/* A number that depends on the whole state, for comparing runs. */
unsigned world_checksum(const struct world *world);

#endif
