/* A column of a page: numbers of one type, or texts; docs/page-format.md. */
#ifndef PIANO_TOOL_VIEW_COLUMN_H
#define PIANO_TOOL_VIEW_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum column_type { COLUMN_U8, COLUMN_U16, COLUMN_U32, COLUMN_I64, COLUMN_F64, COLUMN_TEXT };

/* The encoding of the values in the page, for better compression. */
enum column_code { COLUMN_PLAIN, COLUMN_DELTA, COLUMN_PLANES, COLUMN_DELTA_PLANES };

extern const char *const column_types[]; /* "u8", ... */
extern const char *const column_codes[]; /* "plain", ... */

/* The kind of a column. FITTED: an i64 that is stored as u32 as long as all values fit. */
struct column_kind {
    const char *name; /* must stay valid */
    enum column_type type;
    enum column_code code;
    bool fitted;
};

struct column {
    struct column_kind kind; /* `type` is the current one */
    unsigned char *data;
    size_t bytes, cap;
    size_t rows;
    bool failed; /* out of memory: all further writes are ignored */
};

/* For COLUMN_U8 to COLUMN_I64; values out of range are clamped. */
void column_put(struct column *c, int64_t value);
void column_put_f64(struct column *c, double value);
/* TEXT is UTF-8. */
void column_put_text(struct column *c, const char *text, size_t len);
/* Moves the rows of FROM, which has the same kind and is empty afterwards, to C. */
void column_append(struct column *c, struct column *from);
void column_release(struct column *c);

/* Bytes per value; 1 for text. */
size_t column_width(enum column_type type);
/* Writes the encoded values to OUT, which has C->bytes bytes. */
void column_encode(const struct column *c, unsigned char *out);

#endif
