/* Which units can contain a chosen function? Searching a text for a word takes less time than parsing
 * it with libclang. */
#ifndef PIANO_TOOL_BUILD_SEARCH_H
#define PIANO_TOOL_BUILD_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* May a function that S chooses, or its frame function, be defined in TEXT? */
bool search_may_match(const struct selection *s, const char *text, size_t len);

/* Writes all words of the preprocessed TEXT to OUT, except those of system headers, each once,
 * separated by blanks. So a later selection can be checked without the text. Leaves OUT empty if
 * they are too many to keep, or memory is missing. */
void search_collect(struct buf *out, const struct buf *text, const struct selection *s);

#endif
