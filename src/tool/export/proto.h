/* Protocol buffers, the writing half: the two wire types that profiles need. */
#ifndef PIANO_TOOL_EXPORT_PROTO_H
#define PIANO_TOOL_EXPORT_PROTO_H

#include <stdint.h>

#include "tool/util/buf.h"

void proto_varint(struct buf *b, uint64_t value);
/* A field of an integer or bool; 0, the default, is not written. */
void proto_number(struct buf *b, unsigned field, uint64_t value);
/* A field of bytes, a string or a message that is written already. */
void proto_bytes(struct buf *b, unsigned field, const void *data, size_t len);
/* The message in M, which is emptied, as a field of B. */
void proto_message(struct buf *b, unsigned field, struct buf *m);
/* Fields that are written already, as they are. */
void proto_merge(struct buf *b, const struct buf *fields);

#endif
