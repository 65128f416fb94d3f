/* Memory that is released all at once, and interned strings in it. */
#ifndef PIANO_TOOL_SYMBOL_STRINGS_H
#define PIANO_TOOL_SYMBOL_STRINGS_H

#include <stddef.h>

#include "tool/util/map.h"

struct strings_block;

struct strings {
    struct strings_block *blocks;
    const char **list;
    size_t count;
    struct map known; /* from the hash of a string to its index in `list` */
};

/* The single copy of TEXT (LEN bytes); NULL: out of memory. */
const char *strings_put(struct strings *s, const char *text, size_t len);
const char *strings_puts(struct strings *s, const char *text);
const char *strings_printf(struct strings *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* SIZE bytes, aligned for pointers; NULL: out of memory. */
void *strings_take(struct strings *s, size_t size);
void strings_release(struct strings *s);

#endif
