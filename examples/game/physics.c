/* Movement and collisions: integrate, bounce off walls, sort into the grid, push apart whatever
 * overlaps. Hard knocks throw sparks. */
#include "world.h"

static void integrate(struct world *world, struct entity *entity)
{
    struct vec2 next = {entity->pos.x + entity->vel.x, entity->pos.y + entity->vel.y};
    if (map_blocked(&world->map, (struct vec2){next.x, entity->pos.y})) {
        entity->vel.x = -entity->vel.x;
        next.x = entity->pos.x;
    }
    if (map_blocked(&world->map, (struct vec2){next.x, next.y})) {
        entity->vel.y = -entity->vel.y;
        next.y = entity->pos.y;
    }
    entity->pos = next;
}

/* Rocks do not give way; everything else shares the push and trades speed along the normal. */
static void collide(struct world *world, struct entity *a, struct entity *b)
{
    struct vec2 apart = vec2_sub(b->pos, a->pos);
    float distance = vec2_length(apart);
    float overlap = a->radius + b->radius - distance;
    if (overlap <= 0.0f || distance < 0.001f)
        return;

    struct vec2 normal = {apart.x / distance, apart.y / distance};
    struct vec2 speed = vec2_sub(b->vel, a->vel);
    float closing = -(speed.x * normal.x + speed.y * normal.y);
    float share_a = a->kind == KIND_ROCK ? 0.0f : b->kind == KIND_ROCK ? 1.0f : 0.5f;
    float share_b = b->kind == KIND_ROCK ? 0.0f : 1.0f - share_a;
    float shift = overlap * 0.5f;
    float kick = closing > 0.0f ? closing : 0.0f;

    a->pos.x -= normal.x * shift * share_a;
    a->pos.y -= normal.y * shift * share_a;
    b->pos.x += normal.x * shift * share_b;
    b->pos.y += normal.y * shift * share_b;
    a->vel.x -= normal.x * kick * 2.0f * share_a;
    a->vel.y -= normal.y * kick * 2.0f * share_a;
    b->vel.x += normal.x * kick * 2.0f * share_b;
    b->vel.y += normal.y * kick * 2.0f * share_b;
    if (closing > 2.6f)
        particles_burst(&world->particles, &world->rng, a->pos, 4);
}

static void resolve_collisions(struct world *world)
{
    uint32_t near[128];
    for (size_t i = 0; i < world->entity_count; i++) {
        struct entity *entity = &world->entities[i];
        size_t count = grid_query(&world->grid, entity->pos, entity->radius + 6.0f, near, 128);
        for (size_t k = 0; k < count; k++)
            if (near[k] > i) /* each pair once */
                collide(world, entity, &world->entities[near[k]]);
    }
}

void physics_step(struct world *world)
{
    for (size_t i = 0; i < world->entity_count; i++)
        if (world->entities[i].kind != KIND_ROCK)
            integrate(world, &world->entities[i]);
    grid_rebuild(&world->grid, &world->entities->pos, sizeof *world->entities, world->entity_count);
    resolve_collisions(world);
}
