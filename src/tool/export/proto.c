/* Protocol buffers: a field is a varint with its number and wire type (0: varint, 2: length and
 * bytes), then its value. A varint has seven bits per byte, lowest first. */
#include "tool/export/proto.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void proto_varint(struct buf *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_putc(b, (char)(value | 0x80));
    buf_putc(b, (char)value);
}

void proto_number(struct buf *b, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    proto_varint(b, field << 3 | WIRE_VARINT);
    proto_varint(b, value);
}

void proto_bytes(struct buf *b, unsigned field, const void *data, size_t len)
{
    proto_varint(b, field << 3 | WIRE_BYTES);
    proto_varint(b, len);
    buf_put(b, data, len);
}

void proto_message(struct buf *b, unsigned field, struct buf *m)
{
    b->failed |= m->failed;
    proto_bytes(b, field, m->data ? m->data : "", m->len);
    buf_clear(m);
}

void proto_merge(struct buf *b, const struct buf *fields)
{
    b->failed |= fields->failed;
    if (fields->len > 0)
        buf_put(b, fields->data, fields->len);
}
