/* Writes JSON. The writer puts the commas and knows which brackets are open.
 *
 * Every `json_add_*` adds a member to an object if KEY is not NULL, otherwise an item to an array.
 * KEY is not escaped. Nothing more goes to the file after an error, and `json_finish` returns it.
 * So callers need `err` only to end a long loop early. */
#ifndef PIANO_TOOL_UTIL_JSON_WRITER_H
#define PIANO_TOOL_UTIL_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/util/buf.h"

struct json_writer {
    FILE *out;       /* the text is written to it in parts; NULL: it stays in `text` */
    int err;         /* the first error: 0 or negative errno */
    struct buf text; /* not written yet */
    struct buf open; /* the closing brackets of what is open, the innermost last */
    bool filled;     /* the innermost object or array has an entry, so a comma comes next */
    bool line;       /* see `json_line` */
};

void json_add_object(struct json_writer *w, const char *key);
void json_add_array(struct json_writer *w, const char *key);
/* Closes the innermost object or array. */
void json_close(struct json_writer *w);
/* Starts a line before the next entry or closing bracket, after the comma if there is one. */
void json_line(struct json_writer *w);
/* An object in an array, on a line of its own. */
void json_add_row(struct json_writer *w);

void json_add_text(struct json_writer *w, const char *key, const char *text); /* NULL: null */
void json_add_number(struct json_writer *w, const char *key, int64_t value);
void json_add_count(struct json_writer *w, const char *key, uint64_t value);
void json_add_real(struct json_writer *w, const char *key, int decimals, double value);
void json_add_flag(struct json_writer *w, const char *key, bool value);
void json_add_null(struct json_writer *w, const char *key);
/* VALUE, or null if it is not KNOWN. */
void json_add_known(struct json_writer *w, const char *key, bool known, int64_t value);
void json_add_known_count(struct json_writer *w, const char *key, bool known, uint64_t value);
/* [FROM,TO] */
void json_add_range(struct json_writer *w, const char *key, int64_t from, int64_t to);

/* TEXT of LEN bytes, which is JSON already. */
void json_add_raw(struct json_writer *w, const char *key, const char *text, size_t len);

/* Keeps ERR, unless it is 0 or another error came before. */
void json_keep_error(struct json_writer *w, int err);
/* Closes what is open, ends the text with a newline, writes the rest unless there is an error, and
 * frees the writer. Returns 0 or negative errno. */
int json_finish(struct json_writer *w);
/* For a writer without a file: closes what is open, appends the text to B, which fails if the
 * writer did, and frees the writer. */
void json_finish_in(struct json_writer *w, struct buf *b);
void json_release(struct json_writer *w);

#endif
