#ifndef GAME_VEC2_H
#define GAME_VEC2_H

#include <math.h>

struct vec2 {
    float x;
    float y;
};

static inline struct vec2 vec2_sub(struct vec2 a, struct vec2 b)
{
    return (struct vec2){a.x - b.x, a.y - b.y};
}

static inline float vec2_length(struct vec2 v)
{
    return sqrtf(v.x * v.x + v.y * v.y);
}

#endif
