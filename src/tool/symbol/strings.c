/* There are tens of thousands of names and paths, and most occur many times. Each is stored once,
 * in blocks that are released together. So equal strings have equal pointers.
 *
 * A block holds BLOCK bytes, or one larger object. */
#include "tool/symbol/strings.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

enum { BLOCK = 64 * 1024, ALIGN = 16 };

struct strings_block {
    struct strings_block *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

void *strings_take(struct strings *s, size_t size)
{
    struct strings_block *b = s->blocks;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!b || b->size - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        b = malloc(sizeof(*b) + room);
        if (!b)
            return NULL;
        *b = (struct strings_block){.next = s->blocks, .size = room};
        s->blocks = b;
    }
    void *taken = b->data + b->used;
    b->used += size;
    return taken;
}

const char *strings_put(struct strings *s, const char *text, size_t len)
{
    len = strnlen(text, len);
    uint64_t key = map_hash(text, len);
    uint32_t known;
    for (; (known = map_find(&s->known, key)) != MAP_NONE; key++)
        if (strncmp(s->list[known], text, len) == 0 && s->list[known][len] == '\0')
            return s->list[known];
    char *copy = VEC_DOUBLE(s->list, s->count) == 0 ? strings_take(s, len + 1) : NULL;
    if (!copy || map_put(&s->known, key, (uint32_t)s->count) != 0)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return s->list[s->count++] = copy;
}

const char *strings_puts(struct strings *s, const char *text)
{
    return strings_put(s, text, strlen(text));
}

const char *strings_printf(struct strings *s, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0)
        return NULL;
    const char *kept = strings_put(s, text, (size_t)len);
    free(text);
    return kept;
}

void strings_release(struct strings *s)
{
    while (s->blocks) {
        struct strings_block *next = s->blocks->next;
        free(s->blocks);
        s->blocks = next;
    }
    map_release(&s->known);
    free(s->list);
    *s = (struct strings){0};
}
