/* The JSON reader and writer for run files and `--json`.
 *
 * The reader is a pull scanner: the caller asks for the value it expects and skips unknown values.
 * It does not trust its input: every read is bounded by `end`, and numbers of any length saturate.
 * There is no recursion: `json_skip` keeps its nesting in a bit set of JSON_MAX_DEPTH levels. The
 * reader follows RFC 8259 with one exception: strings may contain bytes that are not UTF-8, because
 * function and file names may. */
#include "tool/util/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int json_fail(struct json *j, const char *problem)
{
    if (!j->problem)
        j->problem = problem;
    return -EINVAL;
}

int json_expect(struct json *j, char mark, const char *problem)
{
    json_space(j);
    if (j->at >= j->end || *j->at != mark)
        return json_fail(j, problem);
    j->at++;
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int check_escape(struct json *j)
{
    if (j->end - j->at < 2)
        return json_fail(j, "expected the rest of an escape");
    if (j->at[1] != 'u') {
        if (!j->at[1] || !strchr("\"\\/bfnrt", j->at[1]))
            return json_fail(j, "expected a valid escape");
        j->at += 2;
        return 0;
    }
    if (j->end - j->at < 6)
        return json_fail(j, "expected four hexadecimal digits");
    for (int i = 2; i < 6; i++)
        if (hex_digit(j->at[i]) < 0)
            return json_fail(j, "expected four hexadecimal digits");
    j->at += 6;
    return 0;
}

int json_string(struct json *j, struct json_text *out)
{
    int err = json_expect(j, '"', "expected a string");
    if (err)
        return err;
    *out = (struct json_text){j->at, 0, false};
    while (j->at < j->end && *j->at != '"') {
        if ((unsigned char)*j->at < 0x20)
            return json_fail(j, "expected no control character in a string");
        if (*j->at != '\\') {
            j->at++;
            continue;
        }
        out->escaped = true;
        err = check_escape(j);
        if (err)
            return err;
    }
    if (j->at >= j->end)
        return json_fail(j, "expected the end of a string");
    out->len = (size_t)(j->at - out->data);
    j->at++;
    return 0;
}

int json_member(struct json *j, bool *first, struct json_text *key)
{
    json_space(j);
    if (j->at < j->end && *j->at == '}') {
        j->at++;
        return 0;
    }
    if (!*first && json_expect(j, ',', "expected `,` or `}`"))
        return -EINVAL;
    *first = false;
    if (json_string(j, key))
        return -EINVAL;
    if (json_expect(j, ':', "expected `:` after a key"))
        return -EINVAL;
    json_space(j);
    return 1;
}

int json_item(struct json *j, bool *first)
{
    json_space(j);
    if (j->at < j->end && *j->at == ']') {
        j->at++;
        return 0;
    }
    if (!*first) {
        if (json_expect(j, ',', "expected `,` or `]`"))
            return -EINVAL;
        json_space(j);
        if (j->at < j->end && *j->at == ']')
            return json_fail(j, "expected a value after `,`");
    }
    *first = false;
    return 1;
}

/* Finds the end of the number at `at`. PLAIN: it has neither a fraction nor an exponent. */
static const char *number_end(struct json *j, bool *plain)
{
    const char *p = j->at, *end = j->end;
    *plain = true;
    if (p < end && *p == '-')
        p++;
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p - digits > 1))
        return NULL;
    if (p < end && *p == '.') {
        *plain = false;
        const char *from = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == from)
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *plain = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const char *from = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == from)
            return NULL;
    }
    return p;
}

int json_double(struct json *j, double *out)
{
    bool plain;
    json_space(j);
    const char *end = number_end(j, &plain);
    if (!end)
        return json_fail(j, "expected a number");
    char text[64];
    size_t len = (size_t)(end - j->at);
    if (len >= sizeof(text)) /* the number cannot be cut: an exponent may follow */
        return json_fail(j, "expected a number of a sensible length");
    memcpy(text, j->at, len);
    text[len] = '\0';
    *out = strtod(text, NULL);
    if (!isfinite(*out)) {
        *out = *out > 0 ? 1e300 : -1e300;
        j->saturated++;
    }
    j->at = end;
    return 0;
}

static int int_from_double(struct json *j, int64_t *out)
{
    double value;
    int err = json_double(j, &value);
    if (err)
        return err;
    if (value >= 9.2e18 || value <= -9.2e18) {
        j->saturated++;
        *out = value > 0 ? INT64_MAX : -INT64_MAX;
    } else {
        *out = (int64_t)llround(value);
    }
    return 0;
}

int json_int(struct json *j, int64_t *out)
{
    json_space(j);
    const char *p = j->at, *end = j->end;
    bool negative = p < end && *p == '-';
    p += negative;
    const char *digits = p, *safe = end - p > 18 ? p + 18 : end; /* 18 digits always fit */
    uint64_t value = 0;
    bool over = false;
    while (p < safe && (unsigned char)(*p - '0') < 10)
        value = value * 10 + (uint64_t)(*p++ - '0');
    for (; p < end && (unsigned char)(*p - '0') < 10; p++) {
        over |= __builtin_mul_overflow(value, (uint64_t)10, &value);
        over |= __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    }
    if (p == digits || (*digits == '0' && p - digits > 1))
        return json_fail(j, "expected a number");
    if (p < end && (*p == '.' || *p == 'e' || *p == 'E'))
        return int_from_double(j, out);
    if (over || value > INT64_MAX) {
        j->saturated++;
        value = INT64_MAX;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    j->at = p;
    return 0;
}

int json_count(struct json *j, int64_t *out)
{
    json_space(j);
    const char *from = j->at;
    int err = json_int(j, out);
    if (err == 0 && *out < 0) {
        j->at = from;
        return json_fail(j, "expected a count that is not negative");
    }
    return err;
}

static int literal(struct json *j, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(j->end - j->at) < len || memcmp(j->at, word, len) != 0)
        return json_fail(j, "expected a value");
    j->at += len;
    return 0;
}

int json_bool(struct json *j, bool *out)
{
    json_space(j);
    *out = j->at < j->end && *j->at == 't';
    return literal(j, *out ? "true" : "false");
}

static int skip_scalar(struct json *j)
{
    struct json_text text;
    bool plain;
    const char *end;
    switch (j->at < j->end ? *j->at : '\0') {
    case '"':
        return json_string(j, &text);
    case 't':
        return literal(j, "true");
    case 'f':
        return literal(j, "false");
    case 'n':
        return literal(j, "null");
    default:
        end = number_end(j, &plain);
        if (!end)
            return json_fail(j, "expected a value");
        j->at = end;
        return 0;
    }
}

/* One step of `json_skip`: skips a scalar, or enters a container. OBJECTS has one bit per level. */
static int skip_step(struct json *j, uint64_t *objects, unsigned *depth)
{
    json_space(j);
    char c = j->at < j->end ? *j->at : '\0';
    if (c != '{' && c != '[')
        return skip_scalar(j);
    if (*depth >= JSON_MAX_DEPTH)
        return json_fail(j, "expected less nesting");
    *objects = *objects << 1 | (c == '{');
    *depth += 1;
    j->at++;
    return 1;
}

int json_skip(struct json *j)
{
    uint64_t objects = 0;
    unsigned depth = 0;
    int got = skip_step(j, &objects, &depth);
    bool first = true;
    while (got >= 0 && depth > 0) {
        struct json_text key;
        first = got == 1;
        int more = (objects & 1) ? json_member(j, &first, &key) : json_item(j, &first);
        if (more < 0)
            return more;
        if (more == 0) {
            objects >>= 1;
            depth--;
            got = 0;
            continue;
        }
        got = skip_step(j, &objects, &depth);
    }
    return got < 0 ? got : 0;
}

int json_end(struct json *j)
{
    json_space(j);
    return j->at == j->end ? 0 : json_fail(j, "expected the end of the text");
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t hex4(const char *p)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++)
        c = c << 4 | (uint32_t)hex_digit(p[i]);
    return c;
}

/* Decodes the \u escape at P, which `json_string` has validated. Reads both halves of a surrogate
 * pair. */
static uint32_t unicode_escape(const char **p, const char *end)
{
    uint32_t c = hex4(*p + 2);
    *p += 6;
    if (c >= 0xd800 && c <= 0xdbff && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        uint32_t low = hex4(*p + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *p += 6;
            return 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
        }
    }
    return c == 0 || (c >= 0xd800 && c <= 0xdfff) ? 0xfffd : c;
}

char *json_unescape(struct json_text text)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char *out = malloc(text.len + 1); /* no escape is shorter than its decoded text */
    if (!out)
        return NULL;
    char *o = out;
    const char *p = text.data, *end = text.data + text.len;
    while (p < end) {
        if (*p != '\\') {
            *o++ = *p++;
        } else if (p[1] == 'u') {
            o += put_utf8(o, unicode_escape(&p, end));
        } else {
            const char *known = strchr(from, p[1]);
            *o++ = known ? to[known - from] : p[1];
            p += 2;
        }
    }
    *o = '\0';
    return out;
}

int json_copy_string(struct json *j, char **out)
{
    struct json_text text;
    int err = json_string(j, &text);
    if (err)
        return err;
    free(*out);
    *out = json_unescape(text);
    return *out ? 0 : -ENOMEM;
}

/* Length of the valid UTF-8 character at S (NUL-terminated), or 0 if it is invalid. */
static size_t utf8_length(const unsigned char *s)
{
    size_t need = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (need > 1 && (s[0] < 0xc2 || s[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || beyond ? 0 : need;
}

void json_put_string(struct buf *b, const char *s)
{
    buf_putc(b, '"');
    while (*s) {
        unsigned char c = (unsigned char)*s;
        size_t len = utf8_length((const unsigned char *)s);
        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(b, "\\u%04x", c);
        else if (len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0) /* C1 controls */
            buf_printf(b, "\\u%04x", (unsigned char)s[1]);
        else if (len == 0)
            buf_puts(b, "\\ufffd");
        else
            buf_put(b, s, len);
        s += len ? len : 1;
    }
    buf_putc(b, '"');
}
