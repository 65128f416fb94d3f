/* Hunters chase the nearest critter they can smell, or roam; each makes a new plan every 24 ticks,
 * in turn, so that the planning is spread over the frames. */
#include "world.h"

#include <stdlib.h>

enum { PLAN_EVERY = 24, SMELL = 96, SPEED = 2 };

static struct vec2 choose_prey(struct world *world, const struct entity *hunter)
{
    uint32_t near[256];
    size_t count = grid_query(&world->grid, hunter->pos, SMELL, near, 256);
    struct vec2 roam = {rng_range(&world->rng, 0, WORLD_SIZE),
                        rng_range(&world->rng, 0, WORLD_SIZE)};
    const struct entity *prey = NULL;
    float nearest = SMELL;
    for (size_t i = 0; i < count; i++) {
        const struct entity *other = &world->entities[near[i]];
        float distance = vec2_length(vec2_sub(other->pos, hunter->pos));
        /* Skips a critter on the same tile, because its path would have no steps. */
        if (other->kind == KIND_CRITTER && distance > 2 * TILE_SIZE && distance < nearest) {
            prey = other;
            nearest = distance;
        }
    }
    return prey && rng_below(&world->rng, 3) ? prey->pos : roam;
}

static void make_plan(struct world *world, struct entity *hunter)
{
    free(hunter->path);
    hunter->path = path_find(&world->map, hunter->pos, choose_prey(world, hunter));
    hunter->path_at = 0;
}

static void follow_path(struct entity *hunter)
{
    if (!hunter->path || hunter->path_at >= hunter->path->length)
        return;
    struct vec2 way = vec2_sub(hunter->path->steps[hunter->path_at], hunter->pos);
    float distance = vec2_length(way);
    if (distance < SPEED) {
        hunter->path_at++;
        return;
    }
    hunter->vel = (struct vec2){way.x / distance * SPEED, way.y / distance * SPEED};
}

void ai_think(struct world *world)
{
    for (size_t i = 0; i < world->entity_count; i++) {
        struct entity *entity = &world->entities[i];
        if (entity->kind != KIND_HUNTER)
            continue;
        if ((world->frame + i) % PLAN_EVERY == 0)
            make_plan(world, entity);
        follow_path(entity);
    }
}
