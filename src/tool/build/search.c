/* Which units can contain a chosen function; see search.h. */
#include "tool/build/search.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "tool/build/marker.h"
#include "tool/util/map.h"

enum { MAX_WORDS = 32 << 10 /* bytes */ };

/* The last identifier of PATTERN. A text without it cannot match. NULL for patterns of another kind
 * (`operator+` can be written in several ways). */
static const char *last_identifier(const char *pattern)
{
    const char *colon = strrchr(pattern, ':');
    const char *word = colon ? colon + 1 : pattern;
    for (const char *p = word; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '_')
            return NULL;
    }
    return *word ? word : NULL;
}

static bool may_occur(const char *text, size_t len, const char *pattern)
{
    const char *word = last_identifier(pattern);
    return !word || memmem(text, len, word, strlen(word));
}

bool search_may_match(const struct selection *s, const char *text, size_t len)
{
    if (s->fns.count == 0 || s->files.count + s->dirs.count > 0)
        return true;
    for (size_t i = 0; i < s->fns.count; i++) {
        if (may_occur(text, len, s->fns.items[i]))
            return true;
    }
    return s->frame && may_occur(text, len, s->frame);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

struct collector {
    struct map seen;
    struct buf *out;
    bool failed;
};

static void add_word(struct collector *c, const char *word, size_t len)
{
    uint64_t hash = map_hash(word, len);
    if (c->failed || map_find(&c->seen, hash) != MAP_NONE)
        return;
    c->failed = map_put(&c->seen, hash, 0) != 0 || c->out->len + len >= MAX_WORDS;
    buf_put(c->out, word, len);
    buf_putc(c->out, ' ');
}

static void add_line(struct collector *c, const char *line, const char *end)
{
    while (line < end) {
        const char *from = line;
        while (line < end && is_word(*line))
            line++;
        if (line > from && !isdigit((unsigned char)*from))
            add_word(c, from, (size_t)(line - from));
        line += line == from;
    }
}

void search_collect(struct buf *out, const struct buf *text, const struct selection *s)
{
    struct collector c = {.out = out};
    char *end = text->data ? text->data + text->len : NULL;
    bool skips = false;
    for (char *line = text->data, *next; line && line < end && !c.failed; line = next) {
        struct marker m;
        char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        if (marker_parse(line, (size_t)((newline ? newline : end) - line), &m))
            skips = marker_flag(&m, MARKER_SYSTEM) && !marker_is_of_project(&m, s);
        else if (!skips)
            add_line(&c, line, newline ? newline : end);
    }
    if (c.failed)
        buf_clear(out);
    map_release(&c.seen);
}
