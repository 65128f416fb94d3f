/* Sparks are born in bursts, slow down, and are freed one by one as they burn out. */
#include "particles.h"

#include <stdlib.h>

void particles_burst(struct particles *particles, struct rng *rng, struct vec2 at, int count)
{
    for (int i = 0; i < count; i++) {
        struct particle *spark = malloc(sizeof *spark);
        if (!spark)
            return; /* a spark less */
        spark->pos = at;
        spark->vel.x = rng_range(rng, -2.0f, 2.0f);
        spark->vel.y = rng_range(rng, -2.0f, 2.0f);
        spark->frames_left = 10 + (int)rng_below(rng, 20);
        spark->next = particles->first;
        particles->first = spark;
        particles->count++;
    }
}

void particles_update(struct particles *particles)
{
    struct particle **link = &particles->first;
    while (*link) {
        struct particle *spark = *link;
        if (--spark->frames_left <= 0) {
            *link = spark->next;
            free(spark);
            particles->count--;
            continue;
        }
        spark->pos.x += spark->vel.x;
        spark->pos.y += spark->vel.y;
        spark->vel.x *= 0.95f;
        spark->vel.y *= 0.95f;
        link = &spark->next;
    }
}

void particles_clear(struct particles *particles)
{
    while (particles->first) {
        struct particle *spark = particles->first;
        particles->first = spark->next;
        free(spark);
    }
    particles->count = 0;
}
