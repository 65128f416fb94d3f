/* Evaluates conditions such as `all(unix, not(feature = "std"))`. The helper writes them as Rust's
 * tokens, with blanks between them. */
#include "tool/build/rust_cfg.h"

#include <ctype.h>
#include <string.h>

#include "tool/util/buf.h"

enum { MAX_DEPTH = 64 };

struct reader {
    const char *at;
    const char *set;
    int depth;
    bool failed;
};

bool rust_has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *p = text; len > 0 && (p = strstr(p, line)); p += len) {
        if ((p == text || p[-1] == '\n') && (p[len] == '\n' || p[len] == '\0'))
            return true;
    }
    return false;
}

static bool take(struct reader *r, char mark)
{
    r->at += strspn(r->at, " ");
    if (*r->at != mark)
        return false;
    r->at++;
    return true;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static void take_word(struct reader *r, struct buf *word)
{
    r->at += strspn(r->at, " ");
    while (is_word(*r->at))
        buf_putc(word, *r->at++);
    r->failed |= word->len == 0 || word->failed;
}

/* Appends `="VALUE"` to WORD, as rustc prints it. */
static void take_value(struct reader *r, struct buf *word)
{
    r->failed |= !take(r, '"');
    buf_puts(word, "=\"");
    while (!r->failed && *r->at != '"') {
        r->failed |= *r->at == '\0';
        buf_putc(word, *r->at);
        r->at += *r->at != '\0';
    }
    r->failed |= !take(r, '"');
    buf_putc(word, '"');
}

static bool read_condition(struct reader *r);

/* The items of `all(...)`, `any(...)` and `not(...)`. */
static bool read_list(struct reader *r, const char *word)
{
    bool is_all = strcmp(word, "all") == 0, is_not = strcmp(word, "not") == 0;
    bool result = is_all;
    r->failed |= !is_all && !is_not && strcmp(word, "any") != 0;
    while (!r->failed && !take(r, ')')) {
        bool item = read_condition(r);
        result = is_all ? result && item : is_not ? !item : result || item;
        if (!take(r, ','))
            r->failed |= *r->at != ')';
    }
    return result;
}

static bool read_condition(struct reader *r)
{
    struct buf word = {0};
    bool result = false;
    r->failed |= ++r->depth > MAX_DEPTH;
    take_word(r, &word);
    if (!r->failed && take(r, '('))
        result = read_list(r, word.data);
    else if (!r->failed) {
        if (take(r, '='))
            take_value(r, &word);
        result = !word.failed && word.data &&
                 (strcmp(word.data, "true") == 0 || rust_has_line(r->set, word.data));
    }
    buf_free(&word);
    r->depth--;
    return result;
}

bool rust_cfg_holds(const char *condition, const char *set)
{
    struct reader r = {.at = condition, .set = set};
    if (!*condition)
        return true;
    bool result = read_condition(&r);
    r.at += strspn(r.at, " ,");
    return result || r.failed || *r.at != '\0';
}
