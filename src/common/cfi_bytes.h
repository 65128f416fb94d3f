/* Numbers out of bytes nobody trusts. A reader stops at its end and stays stopped: what it gives from then on is 0, so a
 * caller may look at `bad` once, when it has all it wants. */
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
    memcpy(&value, r->at, bytes); /* little-endian, as are the machines this runs on */
    r->at += bytes;
    return value;
}

static inline int64_t piano__bytes_take_signed(struct piano__bytes *r, size_t bytes)
{
    unsigned shift = 64 - 8 * (unsigned)bytes;
    return (int64_t)(piano__bytes_take(r, bytes) << shift) >> shift;
}

/* LEB128: seven bits a byte. Bits beyond 64 are dropped. */
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

/* The next LEN bytes, as a reader of their own. */
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
