/* Sparks. Each is its own block on a list: simple, and the profile shows what that costs. */
#ifndef GAME_PARTICLES_H
#define GAME_PARTICLES_H

#include <stddef.h>

#include "rng.h"
#include "vec2.h"

struct particle {
    struct particle *next;
    struct vec2 pos;
    struct vec2 vel;
    int frames_left;
};

struct particles {
    struct particle *first;
    size_t count;
};

void particles_burst(struct particles *particles, struct rng *rng, struct vec2 at, int count);
void particles_update(struct particles *particles);
void particles_clear(struct particles *particles);

#endif
