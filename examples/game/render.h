/* Drawing, without a screen: a list of sprites to draw, then a small picture in memory. */
#ifndef GAME_RENDER_H
#define GAME_RENDER_H

#include <stdint.h>

#include "assets.h"
#include "world.h"

enum { SCREEN_WIDTH = 480, SCREEN_HEIGHT = 320 };

struct screen {
    uint32_t pixels[SCREEN_HEIGHT][SCREEN_WIDTH];
};

void render(struct screen *screen, const struct world *world, struct asset_cache *cache);

unsigned screen_checksum(const struct screen *screen);

#endif
