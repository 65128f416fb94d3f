/* Rust's legacy mangling: "_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE". These are
 * valid C++ names. They encode characters that C++ names cannot contain as "$LT$" and "..", and end
 * in a hash. */
#include "tool/symbol/rust.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"

enum { HASH = 17 }; /* bytes: "h" and 16 digits */

/* Returns the bytes of the next part of a name and moves AT past it; NULL when there is none. */
static const char *next_part(const char **at, size_t *len)
{
    size_t count = 0;
    const char *digit = *at;
    for (; isdigit((unsigned char)*digit); digit++) {
        count = count * 10 + (size_t)(*digit - '0');
        if (count > 1 << 20)
            return NULL;
    }
    if (digit == *at || count == 0 || strnlen(digit, count) < count)
        return NULL;
    *len = count;
    *at = digit + count;
    return digit;
}

static bool is_hash(const char *part, size_t len)
{
    uint32_t seen = 0;
    if (len != HASH || part[0] != 'h')
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!isdigit((unsigned char)part[i]) && !(part[i] >= 'a' && part[i] <= 'f'))
            return false;
        seen |= 1u << (isdigit((unsigned char)part[i]) ? part[i] - '0' : part[i] - 'a' + 10);
    }
    return __builtin_popcount(seen) >= 5; /* a C++ name may contain h0000000000000000 */
}

/* Returns where the part with the hash begins, at its length; NULL if NAME has no hash. Ignores
 * suffixes that compilers append after the E, such as ".llvm.123". */
static const char *find_hash(const char *at)
{
    const char *part, *begin;
    size_t len;
    do {
        begin = at;
        part = next_part(&at, &len);
    } while (part && *at != 'E');
    return part && is_hash(part, len) && (at[1] == '\0' || at[1] == '.') ? begin : NULL;
}

static const struct {
    const char *code, *text;
} codes[] = {{"SP", "@"}, {"BP", "*"}, {"RF", "&"}, {"LT", "<"},
             {"GT", ">"}, {"LP", "("}, {"RP", ")"}, {"C", ","}};

/* Appends the text for the LEN bytes between two "$"; false: unknown code. */
static bool put_code(struct buf *out, const char *code, size_t len)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (strlen(codes[i].code) == len && memcmp(codes[i].code, code, len) == 0) {
            buf_puts(out, codes[i].text);
            return true;
        }
    if (len != 3 || code[0] != 'u' || !isxdigit((unsigned char)code[1]) ||
        !isxdigit((unsigned char)code[2]))
        return false;
    const char digits[] = {code[1], code[2], '\0'};
    int c = (int)strtol(digits, NULL, 16);
    if (c < 0x20 || c > 0x7e)
        return false;
    buf_putc(out, (char)c);
    return true;
}

static void put_part(struct buf *out, const char *part, size_t len)
{
    size_t i = len > 1 && part[0] == '_' && part[1] == '$'; /* the mangler puts "_" before a leading
                                                             * "$" */
    while (i < len) {
        const char *end = part[i] == '$' ? memchr(part + i + 1, '$', len - i - 1) : NULL;
        if (end && put_code(out, part + i + 1, (size_t)(end - part) - i - 1)) {
            i = (size_t)(end - part) + 1;
        } else if (part[i] == '.' && i + 1 < len && part[i + 1] == '.') {
            buf_puts(out, "::");
            i += 2;
        } else {
            buf_putc(out, part[i++]);
        }
    }
}

char *rust_demangle_legacy(const char *name)
{
    if (strncmp(name, "_ZN", 3) != 0)
        return NULL;
    const char *at = name + 3, *hash = find_hash(at);
    struct buf out = {0};
    for (bool first = true; hash && at < hash; first = false) {
        size_t len = 0;
        const char *part = next_part(&at, &len);
        buf_puts(&out, first ? "" : "::");
        put_part(&out, part, len);
    }
    if (out.failed)
        buf_free(&out);
    return out.data;
}
