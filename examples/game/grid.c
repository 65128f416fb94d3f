/* The grid is rebuilt every tick by a counting sort: count the entities of each cell, turn the
 * counts into offsets, put every entity in its place. No lists, and nothing is allocated. */
#include "grid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int grid_init(struct grid *grid, unsigned world_size, size_t capacity)
{
    grid->width = (world_size + GRID_CELL - 1) / GRID_CELL;
    grid->capacity = capacity;
    grid->starts = calloc((size_t)grid->width * grid->width + 1, sizeof *grid->starts);
    grid->members = calloc(capacity, sizeof *grid->members);
    grid->cell_of = calloc(capacity, sizeof *grid->cell_of);
    return grid->starts && grid->members && grid->cell_of ? 0 : -ENOMEM;
}

void grid_release(struct grid *grid)
{
    free(grid->starts);
    free(grid->members);
    free(grid->cell_of);
}

static unsigned clamp_cell(const struct grid *grid, float coordinate)
{
    int cell = (int)(coordinate / GRID_CELL);
    int last = (int)grid->width - 1;
    return (unsigned)(cell < 0 ? 0 : cell > last ? last : cell);
}

void grid_rebuild(struct grid *grid, const struct vec2 *positions, size_t stride, size_t count)
{
    size_t cells = (size_t)grid->width * grid->width;
    memset(grid->starts, 0, (cells + 1) * sizeof *grid->starts);

    for (size_t i = 0; i < count; i++) {
        const struct vec2 *at = (const void *)((const char *)positions + i * stride);
        uint32_t cell = clamp_cell(grid, at->y) * grid->width + clamp_cell(grid, at->x);
        grid->cell_of[i] = cell;
        grid->starts[cell + 1]++;
    }
    for (size_t cell = 0; cell < cells; cell++)
        grid->starts[cell + 1] += grid->starts[cell];
    /* Goes backwards, so that `starts` holds the beginning of each cell, and members keep their order. */
    uint32_t *ends = grid->starts + 1;
    for (size_t i = count; i-- > 0;)
        grid->members[--ends[grid->cell_of[i]]] = (uint32_t)i;
    memmove(grid->starts, ends, cells * sizeof *ends);
    grid->starts[cells] = (uint32_t)count;
}

size_t grid_query(const struct grid *grid, struct vec2 centre, float reach, uint32_t *out,
                  size_t max)
{
    size_t found = 0;
    unsigned left = clamp_cell(grid, centre.x - reach);
    unsigned right = clamp_cell(grid, centre.x + reach);
    unsigned bottom = clamp_cell(grid, centre.y + reach);
    for (unsigned y = clamp_cell(grid, centre.y - reach); y <= bottom; y++) {
        uint32_t at = grid->starts[y * grid->width + left];
        uint32_t end = grid->starts[y * grid->width + right + 1];
        while (at < end && found < max)
            out[found++] = grid->members[at++];
    }
    return found;
}
