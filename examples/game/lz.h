/* A small byte compressor of the LZ family, for the asset pack. */
#ifndef GAME_LZ_H
#define GAME_LZ_H

#include <stddef.h>
#include <stdint.h>

/* The maximum size of LEN bytes after `lz_pack`. */
static inline size_t lz_bound(size_t len)
{
    return len + len / 128 + 1;
}

size_t lz_pack(const uint8_t *src, size_t len, uint8_t *dst);

/* Returns 0, or -EINVAL if SRC is not packed from LEN bytes. */
int lz_unpack(const uint8_t *src, size_t src_len, uint8_t *dst, size_t len);

#endif
