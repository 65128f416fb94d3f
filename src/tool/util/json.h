/* JSON: a strict pull reader over bytes in memory (it copies nothing, allocates nothing and limits
 * the nesting), and a writer of string literals; see json_writer.h for more.
 *
 * Reading functions return 0 or a negative value. `problem` keeps the first problem, and `at` then
 * points to the byte that caused it. Keys and strings are views of the raw text between the
 * quotes. */
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
    const char *problem; /* "expected ..."; NULL: no error so far */
    uint64_t saturated;  /* numbers out of range, which were clamped */
};

struct json_text {
    const char *data; /* not NUL-terminated */
    size_t len;
    bool escaped; /* contains escapes */
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

/* Skips leading space and one expected punctuation mark. */
int json_expect(struct json *j, char mark, const char *problem);

/* Iterates over the members of an object. Call it with *first = true after the `{` was consumed.
 * Returns 1 when KEY is set and the `:` consumed, 0 at the end of the object, negative on error. */
int json_member(struct json *j, bool *first, struct json_text *key);

/* The same for the items of an array: returns 1 when an item follows, 0 at the end. */
int json_item(struct json *j, bool *first);

int json_string(struct json *j, struct json_text *out);
/* Reads any JSON number as an integer. Fractions are rounded. Values out of range are clamped and
 * counted. */
int json_int(struct json *j, int64_t *out);
/* The same, but a negative value is an error. */
int json_count(struct json *j, int64_t *out);
int json_double(struct json *j, double *out);
int json_bool(struct json *j, bool *out);
int json_skip(struct json *j);
/* Fails unless only space is left. */
int json_end(struct json *j);

/* Returns the text of a string view with its escapes decoded; malloc'd; NULL when out of memory.
 * U+0000 becomes U+FFFD, because the result is a C string. */
char *json_unescape(struct json_text text);
/* Reads a string, decodes it and replaces *OUT, which is freed, with the result. */
int json_copy_string(struct json *j, char **out);

/* Appends S as a JSON string literal. Bytes that are not UTF-8 become U+FFFD. */
void json_put_string(struct buf *b, const char *s);

#endif
