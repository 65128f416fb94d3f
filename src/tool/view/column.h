/* A column of a page: numbers of one type, or texts, one after another; docs/page-format.md. */
#ifndef PIANO_TOOL_VIEW_COLUMN_H
#define PIANO_TOOL_VIEW_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum column_type { COLUMN_U8, COLUMN_U16, COLUMN_U32, COLUMN_I64, COLUMN_F64, COLUMN_TEXT };

/* How the values lie in the page, for the sake of compression. */
enum column_code { COLUMN_PLAIN, COLUMN_DELTA, COLUMN_PLANES, COLUMN_DELTA_PLANES };

extern const char *const column_types[]; /* "u8", ... */
extern const char *const column_codes[]; /* "plain", ... */

/* What a column is to be. FITTED: it is an i64, but an u32 as long as all values fit. */
struct column_kind {
    const char *name; /* stays */
    enum column_type type;
    enum column_code code;
    bool fitted;
};

struct column {
    struct column_kind kind; /* `type` is the one it has now */
    unsigned char *data;
    size_t bytes, cap;
    size_t rows;
    bool failed; /* out of memory: what follows is swallowed */
};

/* Of COLUMN_U8 to COLUMN_I64; what does not fit is cut to the nearest that does. */
void column_put(struct column *c, int64_t value);
void column_put_f64(struct column *c, double value);
/* TEXT is UTF-8. */
void column_put_text(struct column *c, const char *text, size_t len);
/* Takes the rows of FROM over, which is of the same kind and is empty afterwards. */
void column_append(struct column *c, struct column *from);
void column_release(struct column *c);

/* Bytes of one value; 1 of a text. */
size_t column_width(enum column_type type);
/* The values, coded, into OUT of C->bytes. */
void column_encode(const struct column *c, unsigned char *out);
/* What a reader does: COUNT values of TYPE at IN back into OUT, both of COUNT values. */
void column_decode(enum column_type type, enum column_code code, const unsigned char *in,
                   unsigned char *out, size_t count);

#endif
