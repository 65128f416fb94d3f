/* Writes protocol buffers: the two wire types that profiles need. */
#ifndef PIANO_TOOL_EXPORT_PROTO_H
#define PIANO_TOOL_EXPORT_PROTO_H

#include <stdint.h>

#include "tool/util/buf.h"

void proto_varint(struct buf *b, uint64_t value);
/* Writes an integer or bool field; omits 0, the default. */
void proto_number(struct buf *b, unsigned field, uint64_t value);
/* Writes a field of bytes, a string or an encoded message. */
void proto_bytes(struct buf *b, unsigned field, const void *data, size_t len);
/* Writes the message in M as a field of B, and empties M. */
void proto_message(struct buf *b, unsigned field, struct buf *m);
/* Appends encoded fields unchanged. */
void proto_merge(struct buf *b, const struct buf *fields);

#endif
