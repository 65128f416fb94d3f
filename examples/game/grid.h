/* A spatial grid: finds the entities near a point without visiting all of them. */
#ifndef GAME_GRID_H
#define GAME_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "vec2.h"

enum { GRID_CELL = 16 };

struct grid {
    unsigned width;    /* cells per side */
    uint32_t *starts;  /* width * width + 1 offsets into `members` */
    uint32_t *members; /* entity numbers, cell after cell */
    uint32_t *cell_of; /* for each entity */
    size_t capacity;
};

int grid_init(struct grid *grid, unsigned world_size, size_t capacity);
void grid_release(struct grid *grid);

/* Sorts COUNT positions, STRIDE bytes apart, into cells. */
void grid_rebuild(struct grid *grid, const struct vec2 *positions, size_t stride, size_t count);

/* Writes up to MAX numbers of entities whose cells touch the square around CENTRE. Returns the count. */
size_t grid_query(const struct grid *grid, struct vec2 centre, float reach, uint32_t *out,
                  size_t max);

#endif
