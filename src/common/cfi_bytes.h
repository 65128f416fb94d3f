/* Reads numbers from untrusted bytes. A reader that would pass its end sets `bad` and returns 0
 * from then on. So a caller may check `bad` once, after its last read. */
#ifndef PIANO_COMMON_CFI_BYTES_H
#define PIANO_COMMON_CFI_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct piano__bytes {
    const unsigned char *at, *end;
    bool bad;
};

static inline uint64_t piano__bytes_take(struct piano__bytes *r, size_t bytes)
{
    uint64_t value = 0;
    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return 0;
    }
    memcpy(&value, r->at, bytes); /* little-endian, like the machines this runs on */
    r->at += bytes;
    return value;
}

static inline int64_t piano__bytes_take_signed(struct piano__bytes *r, size_t bytes)
{
    unsigned shift = 64 - 8 * (unsigned)bytes;
    return (int64_t)(piano__bytes_take(r, bytes) << shift) >> shift;
}

/* LEB128: seven bits per byte. Bits above 64 are dropped. */
static inline uint64_t piano__bytes_take_leb(struct piano__bytes *r, bool is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = piano__bytes_take(r, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += shift < 64 ? 7 : 0;
    } while (byte & 0x80);
    if (is_signed && (byte & 0x40) && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return value;
}

static inline uint64_t piano__bytes_unsigned(struct piano__bytes *r)
{
    return piano__bytes_take_leb(r, false);
}

static inline int64_t piano__bytes_signed(struct piano__bytes *r)
{
    return (int64_t)piano__bytes_take_leb(r, true);
}

/* Returns a reader for the next LEN bytes, and skips them in R. */
static inline struct piano__bytes piano__bytes_block(struct piano__bytes *r, uint64_t len)
{
    if (r->bad || (uint64_t)(r->end - r->at) < len) {
        r->bad = true;
        len = 0;
    }
    struct piano__bytes block = {r->at, r->at + len, r->bad};
    r->at += len;
    return block;
}

#endif
