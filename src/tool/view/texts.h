/* The texts of a page: each stored once and numbered. */
#ifndef PIANO_TOOL_VIEW_TEXTS_H
#define PIANO_TOOL_VIEW_TEXTS_H

#include "tool/util/map.h"
#include "tool/view/pack.h"

struct texts {
    struct pack_table *table;
    struct map by_text;    /* by a hash of the text */
    struct map by_pointer; /* for shared texts, see `texts_shared` */
    size_t *ends;          /* end of each text in the table's column */
    size_t count, cap;
};

/* Returns 0 or -ENOMEM. */
int texts_start(struct texts *s, struct pack *p);
void texts_release(struct texts *s);

/* The number of TEXT; PACK_NONE for NULL, and when out of memory (the column then has `failed`
 * set). */
uint32_t texts_of(struct texts *s, const char *text);
/* The same for a text whose pointer always refers to the same text until `texts_forget`. */
uint32_t texts_shared(struct texts *s, const char *text);
void texts_forget(struct texts *s);

#endif
