/* There are tens of thousands of names and paths, and most occur many times. Each is stored once,
 * in blocks that are released together. So equal strings have equal pointers.
 *
 * A block holds BLOCK bytes, or one larger object. The hash table is at most half full. */
#include "tool/symbol/strings.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 * 1024, ALIGN = 16, FIRST_CAP = 1024 };

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

static size_t hash(const char *text, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

/* The index of TEXT in the table, or of the free slot for it. */
static size_t slot_of(const struct strings *s, const char *text, size_t len)
{
    size_t i = hash(text, len) & (s->cap - 1);
    while (s->table[i] && (strncmp(s->table[i], text, len) != 0 || s->table[i][len] != '\0'))
        i = (i + 1) & (s->cap - 1);
    return i;
}

static int grow(struct strings *s)
{
    struct strings bigger = {.cap = s->cap ? s->cap * 2 : FIRST_CAP};
    bigger.table = calloc(bigger.cap, sizeof(*bigger.table));
    if (!bigger.table)
        return -1;
    for (size_t i = 0; i < s->cap; i++)
        if (s->table[i])
            bigger.table[slot_of(&bigger, s->table[i], strlen(s->table[i]))] = s->table[i];
    free(s->table);
    s->table = bigger.table;
    s->cap = bigger.cap;
    return 0;
}

const char *strings_put(struct strings *s, const char *text, size_t len)
{
    len = strnlen(text, len);
    if (s->count * 2 >= s->cap && grow(s) != 0)
        return NULL;
    size_t slot = slot_of(s, text, len);
    if (!s->table[slot]) {
        char *copy = strings_take(s, len + 1);
        if (!copy)
            return NULL;
        memcpy(copy, text, len);
        copy[len] = '\0';
        s->table[slot] = copy;
        s->count++;
    }
    return s->table[slot];
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
    free(s->table);
    *s = (struct strings){0};
}
