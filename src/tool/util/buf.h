/* A growing byte string. When an allocation fails, it sets `failed` and ignores all further writes,
 * so that callers check once, at the end. */
#ifndef PIANO_TOOL_UTIL_BUF_H
#define PIANO_TOOL_UTIL_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>

struct buf {
    char *data; /* NUL-terminated when not NULL */
    size_t len;
    size_t cap;
    bool failed;
};

void buf_put(struct buf *b, const void *bytes, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Appends S for a string literal: escapes quotes, backslashes and control characters, these in
 * octal digits for C, or as \x1b. */
void buf_put_escaped(struct buf *b, const char *s, bool is_hex);
void buf_put_c_literal(struct buf *b, const char *s);
void buf_clear(struct buf *b);
void buf_free(struct buf *b);

/* Reads a whole regular file and never blocks. Returns 0, then `data` is not NULL, or a negative
 * errno. */
int buf_read_file(struct buf *b, const char *path);
/* The same for piano's own state: fails if PATH is a symbolic link, or larger than any such file
 * (-EFBIG): a sparse file costs its owner nothing, but reading it takes all memory. */
int buf_read_own_file(struct buf *b, const char *path);
/* Writes to PATH.tmp-PID with mode 0600, then renames it to PATH. Returns 0 or negative errno. */
int buf_write_file(const struct buf *b, const char *path);
/* Writes and empties B if it is large, or if LAST. 0 or negative errno. */
int buf_flush(struct buf *b, FILE *out, bool last);

#endif
