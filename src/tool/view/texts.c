/* Texts of a page. They come from files and may contain any bytes. Invalid UTF-8 becomes U+FFFD
 * here, so that a page is UTF-8 throughout. */
#include "tool/view/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/vec.h"

int texts_start(struct texts *s, struct pack *p)
{
    static const struct column_kind kind = {.name = "text", .type = COLUMN_TEXT};
    *s = (struct texts){.table = pack_table(p, "strings", &kind, 1)};
    return s->table ? 0 : -ENOMEM;
}

void texts_release(struct texts *s)
{
    map_release(&s->by_text);
    map_release(&s->by_pointer);
    free(s->ends);
    *s = (struct texts){.table = NULL};
}

/* Is text NUMBER this one? */
static bool is_text(const struct texts *s, uint32_t number, const char *text, size_t len)
{
    size_t from = (number ? s->ends[number - 1] : 0) + 4;
    return s->ends[number] - from == len &&
           (len == 0 || memcmp(s->table->columns[0].data + from, text, len) == 0);
}

static uint32_t add(struct texts *s, const char *text, size_t len, uint64_t key)
{
    struct column *c = &s->table->columns[0];
    c->failed |= VEC_ROOM(s->ends, s->count, s->cap) != 0;
    column_put_text(c, text, len);
    c->failed = c->failed || map_put(&s->by_text, key, (uint32_t)s->count) != 0;
    if (c->failed)
        return PACK_NONE;
    s->ends[s->count] = c->bytes;
    return (uint32_t)s->count++;
}

static uint32_t find(struct texts *s, const char *text, size_t len)
{
    uint64_t key = map_hash(text, len);
    uint32_t found;
    for (; (found = map_find(&s->by_text, key)) != MAP_NONE; key++)
        if (is_text(s, found, text, len))
            return found;
    return add(s, text, len, key);
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return false;
    return true;
}

uint32_t texts_of(struct texts *s, const char *text)
{
    if (!text)
        return PACK_NONE;
    if (is_ascii(text))
        return find(s, text, strlen(text));
    struct buf literal = {0};
    json_put_string(&literal, text);
    char *clean = literal.failed || literal.len < 2
                      ? NULL
                      : json_unescape((struct json_text){literal.data + 1, literal.len - 2, true});
    uint32_t number = clean ? find(s, clean, strlen(clean)) : PACK_NONE;
    if (!clean)
        s->table->columns[0].failed = true;
    free(clean);
    buf_free(&literal);
    return number;
}

uint32_t texts_shared(struct texts *s, const char *text)
{
    if (!text)
        return PACK_NONE;
    uint32_t found = map_find(&s->by_pointer, (uintptr_t)text);
    if (found != MAP_NONE)
        return found;
    found = texts_of(s, text);
    if (found != PACK_NONE && map_put(&s->by_pointer, (uintptr_t)text, found) != 0)
        s->table->columns[0].failed = true;
    return found;
}

void texts_forget(struct texts *s)
{
    map_release(&s->by_pointer);
}
