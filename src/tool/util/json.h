/* JSON, both ways: a strict pull reader over bytes in memory (nothing is copied, nothing is
 * allocated, nesting is bounded) and a writer of string literals.
 *
 * Reading functions return 0 or a negative value; the first problem sticks in `problem` with `at`
 * on the byte in question. Keys and strings are views of the raw text between the quotes. */
#ifndef PIANO_TOOL_UTIL_JSON_H
#define PIANO_TOOL_UTIL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tool/util/buf.h"

struct json {
    const char *at;
    const char *end;
    const char *problem; /* "expected ..."; NULL while all is well */
    uint64_t saturated;  /* numbers that did not fit and were cut */
};

struct json_text {
    const char *data; /* not terminated */
    size_t len;
    bool escaped; /* holds backslashes */
};

enum { JSON_MAX_DEPTH = 64 };

static inline bool json_is(struct json_text key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.data, name, key.len) == 0;
}

static inline void json_space(struct json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
        j->at++;
}

int json_fail(struct json *j, const char *problem);

/* Steps over one expected punctuation mark and the space before it. */
int json_expect(struct json *j, char mark, const char *problem);

/* Members: after `{` was passed, call with *first = true. 1: KEY is set and the `:` passed;
 * 0: the object ended; negative: problem. */
int json_member(struct json *j, bool *first, struct json_text *key);

/* Items of an array, likewise: 1 when an item follows, 0 at the end. */
int json_item(struct json *j, bool *first);

int json_string(struct json *j, struct json_text *out);
/* Any JSON number as an integer: fractions are rounded, what does not fit is cut and counted. */
int json_int(struct json *j, int64_t *out);
/* The same, but a negative value is a problem. */
int json_count(struct json *j, int64_t *out);
int json_double(struct json *j, double *out);
int json_bool(struct json *j, bool *out);
int json_skip(struct json *j);
/* Only space may follow. */
int json_end(struct json *j);

/* The character a string view stands for, escapes resolved; malloc'd; NULL when out of memory.
 * U+0000 becomes U+FFFD, so that it can be a C string. */
char *json_unescape(struct json_text text);

/* Appends S as a JSON string literal; bytes that are not UTF-8 become U+FFFD. */
void json_put_string(struct buf *b, const char *s);
/* `"key":"text",`, or null for NULL; `"key":value,`. KEY is a literal. */
void json_put_text(struct buf *b, const char *key, const char *text);
void json_put_count(struct buf *b, const char *key, uint64_t value);

#endif
