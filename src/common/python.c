/* The line table is a sequence of entries. In the first byte of an entry, bit 7 is set, bits 3 to 6
 * are the kind, and bits 0 to 2 are the number of instructions minus one. Columns and the line
 * delta follow, in bytes with bit 7 clear. So a truncated or invalid table can still be read to its
 * end. */
#include "common/python.h"

#include <string.h>

enum { KIND_ONE_LINE = 10, KIND_NO_COLUMNS = 13, KIND_LONG = 14, KIND_NONE = 15 };

/* Reads a signed varint: six bits per byte, lowest first; bit 6 says that more follow. The lowest
 * bit of the value is the sign. */
static int64_t read_signed(const uint8_t *at, const uint8_t *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 36; shift += 6) {
        value |= (uint64_t)(*at & 63) << shift;
        if (!(*at++ & 64))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static int64_t change_of(unsigned kind, const uint8_t *at, const uint8_t *end)
{
    if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
        return read_signed(at, end);
    return kind >= KIND_ONE_LINE && kind < KIND_NO_COLUMNS ? (int64_t)kind - KIND_ONE_LINE : 0;
}

unsigned piano__python_line(uint32_t first_line, const uint8_t *table, size_t len,
                            uint32_t instruction)
{
    const uint8_t *at = table, *end = table + len;
    int64_t line = first_line;
    uint64_t next = 0; /* the first instruction after the entry */
    while (at < end) {
        unsigned kind = *at >> 3 & 15;
        next += (*at & 7u) + 1;
        line += change_of(kind, at + 1, end);
        if (instruction < next)
            return kind == KIND_NONE || line <= 0 || line > INT32_MAX ? 0 : (unsigned)line;
        for (at++; at < end && !(*at & 128); at++)
            ;
    }
    return 0;
}

static uint32_t char_at(const unsigned char *chars, size_t i, unsigned width)
{
    uint16_t two;
    uint32_t four;
    switch (width) {
    case 1:
        return chars[i];
    case 2:
        memcpy(&two, chars + 2 * i, sizeof two);
        return two;
    default:
        memcpy(&four, chars + 4 * i, sizeof four);
        return four;
    }
}

/* Encodes C as UTF-8 into TO, which has 4 bytes. Returns the length. Python stores bytes that are
 * not UTF-8 as U+DC80 to U+DCFF; these become the original bytes. */
static size_t encode(uint32_t c, unsigned char *to)
{
    if (c < 0x80 || (c >= 0xdc80 && c <= 0xdcff)) {
        to[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (unsigned char)(0xc0 | c >> 6);
        to[1] = (unsigned char)(0x80 | (c & 63));
        return 2;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x10000) {
        to[0] = (unsigned char)(0xe0 | c >> 12);
        to[1] = (unsigned char)(0x80 | (c >> 6 & 63));
        to[2] = (unsigned char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (unsigned char)(0xf0 | c >> 18);
    to[1] = (unsigned char)(0x80 | (c >> 12 & 63));
    to[2] = (unsigned char)(0x80 | (c >> 6 & 63));
    to[3] = (unsigned char)(0x80 | (c & 63));
    return 4;
}

size_t piano__python_text(const void *chars, size_t len, unsigned width, char *to, size_t size)
{
    size_t used = 0;
    bool is_known = width == 1 || width == 2 || width == 4;
    for (size_t i = 0; is_known && i < len / width; i++) {
        unsigned char bytes[4];
        size_t more = encode(char_at(chars, i, width), bytes);
        if (bytes[0] == '\0')
            bytes[0] = ' '; /* a name contains no NUL, but a corrupt file may */
        if (used + more + 1 > size)
            break;
        memcpy(to + used, bytes, more);
        used += more;
    }
    if (size > 0)
        to[used] = '\0';
    return used;
}
