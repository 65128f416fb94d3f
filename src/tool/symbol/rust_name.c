/* The elements of Rust's v0 mangling: numbers, identifiers, lifetimes; and the limits for a
 * name. */
#include "tool/symbol/rust_name.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* STEPS: letters read, counted again each time a back-reference reads them. */
enum { DEPTH = 128, STEPS = 1 << 18, TEXT = 16 * 1024 };

/* ---- letters and numbers ---- */

char rust_peek(const struct rust_name *n)
{
    return n->at < n->len ? n->text[n->at] : '\0';
}

char rust_next(struct rust_name *n)
{
    if (n->at >= n->len || ++n->steps > STEPS)
        n->failed = true;
    return n->failed ? '\0' : n->text[n->at++];
}

bool rust_eat(struct rust_name *n, char c)
{
    if (n->failed || rust_peek(n) != c)
        return false;
    return rust_next(n) == c;
}

void rust_put_bytes(struct rust_name *n, const char *bytes, size_t len)
{
    if (n->failed || n->silent)
        return;
    if (n->out.len + len > TEXT)
        n->failed = true;
    else
        buf_put(&n->out, bytes, len);
}

void rust_put(struct rust_name *n, const char *text)
{
    rust_put_bytes(n, text, strlen(text));
}

void rust_put_number(struct rust_name *n, uint64_t value)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    rust_put_bytes(n, digits, (size_t)len);
}

bool rust_enter(struct rust_name *n)
{
    if (++n->depth > DEPTH)
        n->failed = true;
    return !n->failed;
}

void rust_leave(struct rust_name *n)
{
    n->depth--;
}

uint64_t rust_base62(struct rust_name *n)
{
    if (rust_eat(n, '_'))
        return 0;
    uint64_t value = 0;
    while (!n->failed && !rust_eat(n, '_')) {
        char c = rust_next(n);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'Z' ? (unsigned)(c - 'A') + 36
                                                : 62;
        if (digit == 62 || value > (UINT64_MAX - 62) / 62)
            n->failed = true;
        else
            value = value * 62 + digit;
    }
    return n->failed ? 0 : value + 1;
}

uint64_t rust_tagged(struct rust_name *n, char tag)
{
    return rust_eat(n, tag) ? rust_base62(n) + 1 : 0;
}

bool rust_jump(struct rust_name *n, size_t *back)
{
    size_t here = n->at - 1; /* position of the "B" */
    uint64_t there = rust_base62(n);
    if (n->failed || there >= here) {
        n->failed = true;
        return false;
    }
    *back = n->at;
    n->at = (size_t)there;
    return true;
}

/* ---- identifiers ---- */

struct rust_identifier rust_identifier(struct rust_name *n)
{
    struct rust_identifier id = {.is_punycode = rust_eat(n, 'u')};
    size_t len = 0;
    if (!isdigit((unsigned char)rust_peek(n)))
        n->failed = true;
    if (!rust_eat(n, '0')) /* a leading 0 is the number 0 */
        while (isdigit((unsigned char)rust_peek(n)) && len < TEXT)
            len = len * 10 + (size_t)(rust_next(n) - '0');
    rust_eat(n, '_');
    if (n->failed || len > n->len - n->at) {
        n->failed = true;
        return id;
    }
    id.text = n->text + n->at;
    id.len = len;
    n->at += len;
    return id;
}

void rust_put_identifier(struct rust_name *n, const struct rust_identifier *id)
{
    rust_put(n, id->is_punycode ? "punycode{" : "");
    rust_put_bytes(n, id->text, id->len);
    rust_put(n, id->is_punycode ? "}" : "");
}

/* ---- lifetimes ---- */

void rust_put_lifetime(struct rust_name *n, uint64_t index)
{
    if (index > n->bound_lifetimes) {
        n->failed = true;
    } else if (index == 0) {
        rust_put(n, "'_");
    } else {
        uint64_t number = n->bound_lifetimes - index;
        const char letter[] = {'\'', (char)('a' + number % 26), '\0'};
        rust_put(n, letter);
        if (number >= 26)
            rust_put_number(n, number / 26);
    }
}

uint64_t rust_binder(struct rust_name *n)
{
    uint64_t count = rust_tagged(n, 'G');
    if (count > 64) {
        n->failed = true;
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        rust_put(n, i ? ", " : "for<");
        n->bound_lifetimes++;
        rust_put_lifetime(n, 1);
    }
    rust_put(n, count ? "> " : "");
    return count;
}
