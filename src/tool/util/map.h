/* Maps 64-bit keys to numbers.
 *
 * For longer keys, use their hash (`map_hash`). If `map_find` returns the number of a key with the
 * same hash, try hash + 1 and so on. Such keys cannot be removed. */
#ifndef PIANO_TOOL_UTIL_MAP_H
#define PIANO_TOOL_UTIL_MAP_H

#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX

struct map {
    struct map_slot {
        uint64_t key;
        uint32_t value; /* + 1; 0: free */
    } * slots;
    size_t count, size;
    uint64_t seed;
};

uint32_t map_find(const struct map *m, uint64_t key); /* or MAP_NONE */
/* KEY must not be present. 0 or -ENOMEM. */
int map_put(struct map *m, uint64_t key, uint32_t value);
void map_remove(struct map *m, uint64_t key);
void map_release(struct map *m);
/* The hash differs in each process, so that a crafted file cannot make its texts collide. */
uint64_t map_hash(const void *bytes, size_t len);

#endif
