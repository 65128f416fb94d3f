/* Sprites: a pack of compressed images, and a cache of the ones in use. */
#ifndef GAME_ASSETS_H
#define GAME_ASSETS_H

#include <stddef.h>
#include <stdint.h>

enum { SPRITE_SIZE = 256, SPRITE_LEVELS = 6, SPRITE_COUNT = 40, CACHE_SLOTS = 24 };

struct sprite {
    unsigned id;
    unsigned last_used;
    uint32_t *levels[SPRITE_LEVELS]; /* 0xAARRGGBB; each half the size of the one before */
};

struct asset_pack {
    struct {
        uint8_t *data;
        size_t len;
        uint32_t checksum;
    } entries[SPRITE_COUNT];
};

struct asset_cache {
    struct asset_pack *pack;
    struct sprite *slots[CACHE_SLOTS];
    unsigned hits;
    unsigned misses;
};

struct asset_pack *asset_pack_create(unsigned seed);
void asset_pack_free(struct asset_pack *pack);

/* Returns the sprite, and loads it if necessary; NULL if that fails. It stays valid until the next
 * call. */
const struct sprite *asset_get(struct asset_cache *cache, unsigned id, unsigned now);
void asset_cache_clear(struct asset_cache *cache);

#endif
