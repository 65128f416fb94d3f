/* Names for suggestions.
 *
 * A unit in which no pattern occurs is compiled without being parsed, so its record has no
 * functions. Names are needed only if a pattern matches nothing, and then they need not be exact:
 * every identifier before a parenthesis is used, including those in comments and calls. */
#include "tool/build/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

int names_add(struct names *n, const char *name)
{
    if (VEC_ROOM(n->items, n->count, n->cap) != 0)
        return -ENOMEM;
    n->items[n->count++] = name;
    return 0;
}

static bool is_part(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == ':' || c == '~';
}

static bool is_keyword(const char *word)
{
    static const char *const keywords[] = {
        "if",      "for",   "while",         "switch",        "return",  "sizeof",
        "defined", "catch", "static_assert", "__attribute__", "decltype"};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strcmp(word, keywords[i]) == 0)
            return true;
    }
    return false;
}

/* Splits TEXT in place: the identifiers before parentheses become strings. */
static int scan(struct names *n, char *text)
{
    int err = 0;
    /* PAREN may be overwritten, but the search continues after it. */
    for (char *paren = strchr(text, '('); paren && err == 0; paren = strchr(paren + 1, '(')) {
        char *end = paren;
        while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        char *begin = end;
        while (begin > text && is_part(begin[-1]))
            begin--;
        while (*begin == ':')
            begin++;
        if (begin >= end || isdigit((unsigned char)*begin))
            continue;
        *end = '\0';
        if (!is_keyword(begin))
            err = names_add(n, begin);
    }
    return err;
}

int names_add_source(struct names *n, const char *path)
{
    struct buf text = {0};
    if (buf_read_file(&text, path) != 0 || !text.data || memchr(text.data, '\0', text.len)) {
        buf_free(&text);
        return 0;
    }
    if (VEC_DOUBLE(n->owned, n->owned_count) != 0) {
        buf_free(&text);
        return -ENOMEM;
    }
    n->owned[n->owned_count++] = text.data;
    return scan(n, text.data);
}

void names_sort(struct names *n)
{
    size_t kept = 0;
    if (n->count > 0)
        qsort(n->items, n->count, sizeof *n->items, order_text);
    for (size_t i = 0; i < n->count; i++) {
        if (kept == 0 || strcmp(n->items[kept - 1], n->items[i]) != 0)
            n->items[kept++] = n->items[i];
    }
    n->count = kept;
}

void names_release(struct names *n)
{
    for (size_t i = 0; i < n->owned_count; i++)
        free(n->owned[i]);
    free(n->owned);
    free(n->items);
    *n = (struct names){0};
}
