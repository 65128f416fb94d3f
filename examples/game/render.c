/* Two steps, as in a real renderer: collect what is in view and sort it back to front, then put it
 * into the picture. */
#include "render.h"

#include <stdlib.h>

struct draw {
    float depth;
    uint32_t order; /* settles equal depths, so that the picture is the same everywhere */
    unsigned sprite;
    int x, y, level;
};

struct display_list {
    struct draw *draws;
    size_t count;
    size_t capacity;
};

/* What things look like depends on where the camera is: the way across the world is cut into
 * regions with ten sprites each. Hence the misses, all at once, when the camera enters one. */
static unsigned sprite_of(const struct entity *entity, const struct world *world)
{
    unsigned region = (unsigned)world->camera.x / 176;
    return (region * 10 + entity->look % 10) % SPRITE_COUNT;
}

static void list_add(struct display_list *list, struct draw draw)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 32;
        struct draw *draws = realloc(list->draws, capacity * sizeof *draws);
        if (!draws)
            return; /* the picture lacks a sprite; the game goes on */
        list->draws = draws;
        list->capacity = capacity;
    }
    list->draws[list->count++] = draw;
}

static void build_display_list(struct display_list *list, const struct world *world)
{
    float left = world->camera.x - SCREEN_WIDTH / 2.0f,
          top = world->camera.y - SCREEN_HEIGHT / 2.0f;
    for (size_t i = 0; i < world->entity_count; i++) {
        const struct entity *entity = &world->entities[i];
        float x = entity->pos.x - left, y = entity->pos.y - top;
        if (x < -8 || y < -8 || x > SCREEN_WIDTH + 8 || y > SCREEN_HEIGHT + 8)
            continue;
        list_add(list, (struct draw){.depth = entity->pos.y,
                                     .order = (uint32_t)i,
                                     .sprite = sprite_of(entity, world),
                                     .x = (int)x,
                                     .y = (int)y,
                                     .level = entity->kind == KIND_CRITTER ? 5 : 4});
    }
}

static int compare_draws(const void *left, const void *right)
{
    const struct draw *a = left, *b = right;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static uint32_t blend(uint32_t under, uint32_t over)
{
    uint32_t alpha = over >> 24, rest = 255 - alpha;
    uint32_t red_blue = ((over & 0xff00ff) * alpha + (under & 0xff00ff) * rest) >> 8 & 0xff00ff;
    uint32_t green = ((over & 0xff00) * alpha + (under & 0xff00) * rest) >> 8 & 0xff00;
    return 0xff000000u | red_blue | green;
}

static void draw_sprite(struct screen *screen, const struct sprite *sprite, const struct draw *draw)
{
    int size = SPRITE_SIZE >> draw->level;
    const uint32_t *pixels = sprite->levels[draw->level];
    for (int row = 0; row < size; row++) {
        int y = draw->y - size / 2 + row;
        if (y < 0 || y >= SCREEN_HEIGHT)
            continue;
        for (int column = 0; column < size; column++) {
            int x = draw->x - size / 2 + column;
            if (x >= 0 && x < SCREEN_WIDTH)
                screen->pixels[y][x] = blend(screen->pixels[y][x], pixels[row * size + column]);
        }
    }
}

static void draw_particles(struct screen *screen, const struct world *world)
{
    for (const struct particle *spark = world->particles.first; spark; spark = spark->next) {
        int x = (int)(spark->pos.x - world->camera.x) + SCREEN_WIDTH / 2;
        int y = (int)(spark->pos.y - world->camera.y) + SCREEN_HEIGHT / 2;
        if (x >= 0 && y >= 0 && x < SCREEN_WIDTH && y < SCREEN_HEIGHT)
            screen->pixels[y][x] = 0xffffe080u;
    }
}

/* Row by row, in pieces of one tile. */
static void draw_ground(struct screen *screen, const struct world *world)
{
    int left = (int)world->camera.x - SCREEN_WIDTH / 2;
    int top = (int)world->camera.y - SCREEN_HEIGHT / 2;
    for (int y = 0; y < SCREEN_HEIGHT; y++) {
        for (int x = 0, end; x < SCREEN_WIDTH; x = end) {
            struct vec2 at = {(float)(left + x), (float)(top + y)};
            uint32_t colour = map_blocked(&world->map, at) ? 0xff606870u : 0xff203020u;
            end = x + TILE_SIZE - (left + x) % TILE_SIZE;
            for (int i = x; i < end && i < SCREEN_WIDTH; i++)
                screen->pixels[y][i] = colour;
        }
    }
}

void render(struct screen *screen, const struct world *world, struct asset_cache *cache)
{
    struct display_list list = {0};
    build_display_list(&list, world);
    if (list.count > 0)
        qsort(list.draws, list.count, sizeof *list.draws, compare_draws);

    draw_ground(screen, world);
    for (size_t i = 0; i < list.count; i++) {
        const struct sprite *sprite = asset_get(cache, list.draws[i].sprite, world->frame);
        if (sprite)
            draw_sprite(screen, sprite, &list.draws[i]);
    }
    draw_particles(screen, world);
    free(list.draws);
}

unsigned screen_checksum(const struct screen *screen)
{
    unsigned sum = 0;
    for (int y = 0; y < SCREEN_HEIGHT; y++)
        for (int x = 0; x < SCREEN_WIDTH; x++)
            sum = sum * 31 + screen->pixels[y][x];
    return sum;
}
