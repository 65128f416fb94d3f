/* The texts of a page: each once, by number. */
#ifndef PIANO_TOOL_VIEW_TEXTS_H
#define PIANO_TOOL_VIEW_TEXTS_H

#include "tool/report/map.h"
#include "tool/view/pack.h"

struct texts {
    struct pack_table *table;
    struct map by_text;    /* a hash of the text */
    struct map by_pointer; /* of texts that are shared, see `texts_shared` */
    uint64_t seed;
    size_t *ends; /* of texts in the table's column */
    size_t count, cap;
};

/* 0 or -ENOMEM. */
int texts_start(struct texts *s, struct pack *p);
void texts_release(struct texts *s);

/* The number of TEXT; PACK_NONE of NULL, and when memory is out (the column then says so). */
uint32_t texts_of(struct texts *s, const char *text);
/* The same of a text that is always the same pointer, until `texts_forget`. */
uint32_t texts_shared(struct texts *s, const char *text);
void texts_forget(struct texts *s);

#endif
