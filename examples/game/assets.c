/* The pack is made at start-up, as a build step would make it. The cache is smaller than the pack
 * and drops what was unused for longest. A miss loads the sprite on the spot, in the middle of a
 * frame: unpack, verify, colour, build the smaller sizes. When the camera enters a new region
 * several sprites miss at once, and that frame stalls. This is the fault to find in this game. */
#include "assets.h"

#include <stdlib.h>

#include "lz.h"
#include "rng.h"

enum { SPRITE_PIXELS = SPRITE_SIZE * SPRITE_SIZE };

static uint32_t checksum(const uint8_t *bytes, size_t len)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < len; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* A disc with bands and some grain, in palette numbers; 0 is transparent. */
static void paint(uint8_t *pixels, struct rng *rng)
{
    unsigned band = 3 + rng_below(rng, 12);
    int centre = SPRITE_SIZE / 2;
    for (int y = 0; y < SPRITE_SIZE; y++) {
        for (int x = 0; x < SPRITE_SIZE; x++) {
            int dx = x - centre, dy = y - centre;
            unsigned far = (unsigned)(dx * dx + dy * dy);
            unsigned grain = rng_below(rng, 9) == 0;
            pixels[y * SPRITE_SIZE + x] =
                far > (unsigned)(centre * centre) ? 0 : (uint8_t)(1 + far / 64 / band * 16 + grain);
        }
    }
}

struct asset_pack *asset_pack_create(unsigned seed)
{
    struct asset_pack *pack = calloc(1, sizeof *pack);
    uint8_t *pixels = malloc(SPRITE_PIXELS);
    for (unsigned id = 0; pack && pixels && id < SPRITE_COUNT; id++) {
        struct rng rng = {(seed + id + 1) * 2246822519u | 1};
        paint(pixels, &rng);
        pack->entries[id].checksum = checksum(pixels, SPRITE_PIXELS);
        pack->entries[id].data = malloc(lz_bound(SPRITE_PIXELS));
        if (!pack->entries[id].data) {
            asset_pack_free(pack);
            pack = NULL;
            break;
        }
        pack->entries[id].len = lz_pack(pixels, SPRITE_PIXELS, pack->entries[id].data);
    }
    free(pixels);
    return pack;
}

void asset_pack_free(struct asset_pack *pack)
{
    for (unsigned id = 0; pack && id < SPRITE_COUNT; id++)
        free(pack->entries[id].data);
    free(pack);
}

static void sprite_free(struct sprite *sprite)
{
    for (int level = 0; sprite && level < SPRITE_LEVELS; level++)
        free(sprite->levels[level]);
    free(sprite);
}

static void colour(uint32_t *dst, const uint8_t *src, unsigned id)
{
    for (int i = 0; i < SPRITE_PIXELS; i++) {
        uint32_t shade = src[i] * 3u % 256, tint = (src[i] + id * 37u) % 256;
        dst[i] = src[i] ? 0xff000000u | shade << 16 | tint << 8 | (255 - shade) : 0;
    }
}

/* Each pixel of the smaller level is the average of four; sums stay within 10 bits a channel. */
static void halve(uint32_t *dst, const uint32_t *src, int size)
{
    for (int y = 0; y < size / 2; y++) {
        for (int x = 0; x < size / 2; x++) {
            const uint32_t *at = &src[2 * y * size + 2 * x];
            uint32_t pixel = 0;
            for (int shift = 0; shift < 32; shift += 8) {
                uint32_t sum = (at[0] >> shift & 255) + (at[1] >> shift & 255) +
                               (at[size] >> shift & 255) + (at[size + 1] >> shift & 255);
                pixel |= sum / 4 << shift;
            }
            dst[y * (size / 2) + x] = pixel;
        }
    }
}

static struct sprite *asset_load(const struct asset_pack *pack, unsigned id)
{
    struct sprite *sprite = calloc(1, sizeof *sprite);
    uint8_t *pixels = malloc(SPRITE_PIXELS);
    if (!sprite || !pixels)
        goto fail;
    sprite->id = id;
    for (int level = 0, size = SPRITE_SIZE; level < SPRITE_LEVELS; level++, size /= 2) {
        sprite->levels[level] = malloc((size_t)size * (size_t)size * sizeof(uint32_t));
        if (!sprite->levels[level])
            goto fail;
    }
    if (lz_unpack(pack->entries[id].data, pack->entries[id].len, pixels, SPRITE_PIXELS) < 0 ||
        checksum(pixels, SPRITE_PIXELS) != pack->entries[id].checksum)
        goto fail;
    colour(sprite->levels[0], pixels, id);
    for (int level = 1, size = SPRITE_SIZE; level < SPRITE_LEVELS; level++, size /= 2)
        halve(sprite->levels[level], sprite->levels[level - 1], size);
    free(pixels);
    return sprite;

fail:
    free(pixels);
    sprite_free(sprite);
    return NULL;
}

const struct sprite *asset_get(struct asset_cache *cache, unsigned id, unsigned now)
{
    struct sprite **victim = &cache->slots[0];
    for (int i = 0; i < CACHE_SLOTS; i++) {
        struct sprite **slot = &cache->slots[i];
        if (*slot && (*slot)->id == id) {
            (*slot)->last_used = now;
            cache->hits++;
            return *slot;
        }
        if (*victim && (!*slot || (*slot)->last_used < (*victim)->last_used))
            victim = slot;
    }
    cache->misses++;
    sprite_free(*victim);
    *victim = asset_load(cache->pack, id);
    if (*victim)
        (*victim)->last_used = now;
    return *victim;
}

void asset_cache_clear(struct asset_cache *cache)
{
    for (int i = 0; i < CACHE_SLOTS; i++) {
        sprite_free(cache->slots[i]);
        cache->slots[i] = NULL;
    }
}
