/* A look at the words of preprocessed C and C++ text: enough of a lexer to tell code from strings
 * and comments. */
#ifndef PIANO_TOOL_BUILD_TOKENS_H
#define PIANO_TOOL_BUILD_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

/* Why a function whose declaration reads HEAD must not get a guard, or NULL. */
const char *tokens_forbid_head(const char *head, size_t len);
/* The same for its body (from the brace). */
const char *tokens_forbid_body(const char *body, size_t len, bool cxx);

/* TEXT begins with `{`: the length up to and with the brace that closes it; 0 when there is none. */
size_t tokens_match_brace(const char *text, size_t len);

/* How far behind the `{` at TEXT[0] the first declaration may stand: 1, or the end of the GNU local
 * label declarations, which must come first. 0 when that cannot be told. */
size_t tokens_first_place(const char *text, size_t len);

/* The first call of setjmp or its kin at or behind *START: sets *START to its name and *END behind its closing
 * parenthesis; false when there is none. */
bool tokens_find_setjmp(const char *text, size_t len, size_t *start, size_t *end);

/* Does the text use the attribute `ifunc("NAME")`? */
bool tokens_uses_ifunc(const char *text, size_t len);

#endif
