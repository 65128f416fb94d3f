/* Packed data is a row of tokens. A token byte t below 128 is followed by t + 1 bytes to copy; from
 * 128 on it is followed by a distance in two bytes, low first, and means: repeat t - 125 bytes from
 * that far back. Repeats may overlap themselves, which makes runs cheap. */
#include "lz.h"

#include <errno.h>
#include <string.h>

enum { MIN_MATCH = 3, MAX_MATCH = 130, MAX_LITERALS = 128, MAX_DISTANCE = 65535 };

static unsigned hash3(const uint8_t *at)
{
    return ((at[0] << 8 ^ at[1] << 4 ^ at[2]) * 2654435761u) >> 20;
}

static size_t flush_literals(uint8_t *dst, size_t out, const uint8_t *from, size_t count)
{
    while (count > 0) {
        size_t run = count < MAX_LITERALS ? count : MAX_LITERALS;
        dst[out++] = (uint8_t)(run - 1);
        memcpy(dst + out, from, run);
        out += run;
        from += run;
        count -= run;
    }
    return out;
}

size_t lz_pack(const uint8_t *src, size_t len, uint8_t *dst)
{
    size_t last_seen[4096] = {0}; /* position + 1 by hash */
    size_t out = 0, literals = 0, at = 0;
    while (at + MIN_MATCH <= len) {
        unsigned hash = hash3(src + at);
        size_t seen = last_seen[hash], match = 0;
        last_seen[hash] = at + 1;
        if (seen > 0 && at - (seen - 1) <= MAX_DISTANCE)
            while (match < MAX_MATCH && at + match < len &&
                   src[seen - 1 + match] == src[at + match])
                match++;
        if (match < MIN_MATCH) {
            at++;
            continue;
        }
        size_t distance = at - (seen - 1);
        out = flush_literals(dst, out, src + literals, at - literals);
        dst[out++] = (uint8_t)(match - MIN_MATCH + 128);
        dst[out++] = (uint8_t)distance;
        dst[out++] = (uint8_t)(distance >> 8);
        at += match;
        literals = at;
    }
    return flush_literals(dst, out, src + literals, len - literals);
}

int lz_unpack(const uint8_t *src, size_t src_len, uint8_t *dst, size_t len)
{
    size_t in = 0, out = 0;
    while (in < src_len) {
        uint8_t token = src[in++];
        if (token < 128) {
            size_t run = (size_t)token + 1;
            if (run > src_len - in || run > len - out)
                return -EINVAL;
            memcpy(dst + out, src + in, run);
            in += run;
            out += run;
            continue;
        }
        size_t match = (size_t)token - 128 + MIN_MATCH;
        if (src_len - in < 2)
            return -EINVAL;
        size_t distance = src[in] | (size_t)src[in + 1] << 8;
        in += 2;
        if (distance == 0 || distance > out || match > len - out)
            return -EINVAL;
        for (; match > 0; match--, out++) /* byte by byte: the two may overlap */
            dst[out] = dst[out - distance];
    }
    return out == len ? 0 : -EINVAL;
}
