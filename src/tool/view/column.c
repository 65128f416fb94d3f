/* Columns of a page, and their encoding.
 *
 * Values are stored in memory as in the unpacked page: little-endian, `column_width` bytes each. A
 * fitted column starts with four bytes per value, and is widened once, when the first value needs
 * eight: most durations are below four seconds, and a page with a million frames is in memory while
 * it is made.
 *
 * The encoding does not make values smaller but more similar. Differences of sorted times have
 * upper bytes of zero, and all bytes of equal weight are stored together (planes), so that deflate
 * finds long runs. */
#include "tool/view/column.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const column_types[] = {"u8", "u16", "u32", "i64", "f64", "text"};
const char *const column_codes[] = {"plain", "delta", "planes", "delta-planes"};

size_t column_width(enum column_type type)
{
    static const unsigned char widths[] = {1, 2, 4, 8, 8, 1};
    return widths[type];
}

/* Makes room for MORE bytes; NULL when out of memory. */
static unsigned char *room(struct column *c, size_t more)
{
    if (c->failed)
        return NULL;
    if (c->bytes + more > c->cap) {
        size_t cap = c->cap ? c->cap : 256;
        while (cap < c->bytes + more)
            cap += cap / 2;
        unsigned char *data = realloc(c->data, cap);
        if (!data) {
            c->failed = true;
            return NULL;
        }
        c->data = data;
        c->cap = cap;
    }
    unsigned char *at = c->data + c->bytes;
    c->bytes += more;
    return at;
}

static void store(unsigned char *at, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t fetch(const unsigned char *at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* From u32 to i64, in place: starts with the last value. */
static void widen(struct column *c)
{
    if (c->rows > 0 && !room(c, c->rows * 4))
        return;
    for (size_t i = c->rows; i-- > 0;) {
        uint64_t value = fetch(c->data + i * 4, 4);
        store(c->data + i * 8, value, 8);
    }
    c->kind.type = COLUMN_I64;
}

void column_put(struct column *c, int64_t value)
{
    static const int64_t most[] = {UINT8_MAX, UINT16_MAX, UINT32_MAX, INT64_MAX};
    if (c->kind.fitted && c->rows == 0)
        c->kind.type = COLUMN_U32;
    if (c->kind.fitted && c->kind.type == COLUMN_U32 && (value < 0 || value > UINT32_MAX))
        widen(c);
    if (c->kind.type != COLUMN_I64) {
        value = value < 0 ? 0 : value;
        value = value > most[c->kind.type] ? most[c->kind.type] : value;
    }
    size_t width = column_width(c->kind.type);
    unsigned char *at = room(c, width);
    if (!at)
        return;
    store(at, (uint64_t)value, width);
    c->rows++;
}

void column_put_f64(struct column *c, double value)
{
    uint64_t bits;
    unsigned char *at = room(c, sizeof(bits));
    if (!at)
        return;
    memcpy(&bits, &value, sizeof(bits));
    store(at, bits, sizeof(bits));
    c->rows++;
}

void column_put_text(struct column *c, const char *text, size_t len)
{
    len = len < UINT32_MAX ? len : UINT32_MAX;
    unsigned char *at = room(c, 4 + len);
    if (!at)
        return;
    store(at, len, 4);
    memcpy(at + 4, text, len);
    c->rows++;
}

void column_append(struct column *c, struct column *from)
{
    if (c->kind.fitted && c->rows == 0)
        c->kind.type = from->kind.type;
    if (from->rows > 0 && c->kind.type == COLUMN_U32 && from->kind.type == COLUMN_I64)
        widen(c);
    if (from->rows > 0 && c->kind.type == COLUMN_I64 && from->kind.type == COLUMN_U32)
        widen(from);
    c->failed |= from->failed;
    unsigned char *at = room(c, from->bytes);
    if (at && from->bytes) {
        memcpy(at, from->data, from->bytes);
        c->rows += from->rows;
    }
    column_release(from);
}

void column_release(struct column *c)
{
    free(c->data);
    c->data = NULL;
    c->bytes = c->cap = c->rows = 0;
}

/* ---- encoding ---- */

void column_encode(const struct column *c, unsigned char *out)
{
    size_t width = column_width(c->kind.type);
    bool delta = c->kind.code == COLUMN_DELTA || c->kind.code == COLUMN_DELTA_PLANES;
    bool planes = c->kind.code == COLUMN_PLANES || c->kind.code == COLUMN_DELTA_PLANES;
    uint64_t before = 0;
    if (c->kind.type == COLUMN_TEXT || (!delta && !planes)) {
        if (c->bytes)
            memcpy(out, c->data, c->bytes);
        return;
    }
    for (size_t i = 0; i < c->rows; i++) {
        uint64_t value = fetch(c->data + i * width, width), coded = delta ? value - before : value;
        before = value;
        for (size_t k = 0; k < width; k++)
            out[planes ? k * c->rows + i : i * width + k] = (unsigned char)(coded >> 8 * k);
    }
}
