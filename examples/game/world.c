/* Making the world, and the order of a tick: think, move, age the particles, move the camera. */
#include "world.h"

#include <stdint.h>
#include <stdlib.h>

/* Walls: straight pieces strewn about, with the border closed. */
static void build_walls(struct map *map, struct rng *rng)
{
    for (int i = 0; i < MAP_TILES; i++) {
        map->wall[0][i] = map->wall[MAP_TILES - 1][i] = true;
        map->wall[i][0] = map->wall[i][MAP_TILES - 1] = true;
    }
    for (int piece = 0; piece < 90; piece++) {
        unsigned x = rng_below(rng, MAP_TILES - 12);
        unsigned y = rng_below(rng, MAP_TILES - 12);
        bool across = rng_below(rng, 2);
        for (unsigned i = 0; i < 4 + rng_below(rng, 8); i++)
            map->wall[y + (across ? 0 : i)][x + (across ? i : 0)] = true;
    }
}

static struct vec2 free_spot(struct world *world)
{
    struct vec2 spot;
    do {
        spot.x = rng_range(&world->rng, TILE_SIZE, WORLD_SIZE - TILE_SIZE);
        spot.y = rng_range(&world->rng, TILE_SIZE, WORLD_SIZE - TILE_SIZE);
    } while (map_blocked(&world->map, spot));
    return spot;
}

static void spawn(struct world *world, struct entity *entity, enum kind kind)
{
    static const float speed[] = {[KIND_ROCK] = 0.0f, [KIND_CRITTER] = 1.2f, [KIND_HUNTER] = 0.5f};
    *entity = (struct entity){
        .kind = kind,
        .pos = free_spot(world),
        .radius = kind == KIND_ROCK ? 6.0f : rng_range(&world->rng, 2.0f, 4.0f),
        .look = rng_next(&world->rng),
    };
    entity->vel.x = rng_range(&world->rng, -speed[kind], speed[kind]);
    entity->vel.y = rng_range(&world->rng, -speed[kind], speed[kind]);
}

struct world *world_create(unsigned seed)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        return NULL;
    world->rng.state = seed * 2654435761u | 1;
    world->entity_count = ENTITY_COUNT;
    world->entities = calloc(ENTITY_COUNT, sizeof *world->entities);
    if (!world->entities || grid_init(&world->grid, WORLD_SIZE, ENTITY_COUNT) < 0) {
        world_free(world);
        return NULL;
    }
    build_walls(&world->map, &world->rng);
    for (size_t i = 0; i < ENTITY_COUNT; i++)
        spawn(world, &world->entities[i],
              i < HUNTER_COUNT                ? KIND_HUNTER
              : i < HUNTER_COUNT + ROCK_COUNT ? KIND_ROCK
                                              : KIND_CRITTER);
    return world;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    for (size_t i = 0; world->entities && i < world->entity_count; i++)
        free(world->entities[i].path);
    particles_clear(&world->particles);
    grid_release(&world->grid);
    free(world->entities);
    free(world);
}

/* The camera travels a triangle wave along the diagonal, through one region after the other. */
static void move_camera(struct world *world)
{
    unsigned span = WORLD_SIZE - 480;
    unsigned at = world->frame * 5 % (2 * span);
    float along = (float)(at < span ? at : 2 * span - at);
    world->camera = (struct vec2){240.0f + along, 240.0f + along};
}

void update(struct world *world)
{
    ai_think(world);
    physics_step(world);
    particles_update(&world->particles);
    move_camera(world);
    world->frame++;
}

unsigned world_checksum(const struct world *world)
{
    unsigned sum = world->frame;
    for (size_t i = 0; i < world->entity_count; i++) {
        const struct entity *entity = &world->entities[i];
        sum = sum * 31 + (unsigned)(int)(entity->pos.x * 64.0f);
        sum = sum * 31 + (unsigned)(int)(entity->pos.y * 64.0f);
    }
    return sum * 31 + (unsigned)world->particles.count;
}
