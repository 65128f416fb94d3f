/* Base64, with `+`, `/` and padding. */
#include "tool/view/base64.h"

#include <stdint.h>

size_t base64_length(size_t len)
{
    return (len + 2) / 3 * 4;
}

void base64_encode(char *out, const void *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    for (; len >= 3; len -= 3, in += 3) {
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = digits[v >> 6 & 63];
        *out++ = digits[v & 63];
    }
    if (len == 0)
        return;
    uint32_t v = (uint32_t)in[0] << 16 | (len == 2 ? (uint32_t)in[1] << 8 : 0);
    out[0] = digits[v >> 18];
    out[1] = digits[v >> 12 & 63];
    out[2] = '=';
    if (len == 2)
        out[2] = digits[v >> 6 & 63];
    out[3] = '=';
}
