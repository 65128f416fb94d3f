/* A lexer for preprocessed C and C++ text, sufficient to distinguish code from strings and
 * comments. */
#ifndef PIANO_TOOL_BUILD_TOKENS_H
#define PIANO_TOOL_BUILD_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

/* Why a function with the declaration HEAD must not get a guard, or NULL. */
const char *tokens_forbid_head(const char *head, size_t len);
/* The same for its body (from the brace). */
const char *tokens_forbid_body(const char *body, size_t len, bool cxx);

/* TEXT begins with `{`. Returns the length up to and including the matching brace; 0 when there is
 * none. */
size_t tokens_match_brace(const char *text, size_t len);

/* The offset from the `{` at TEXT[0] at which the first declaration may be inserted: 1, or the end
 * of the GNU local label declarations, which must come first. 0 when it cannot be determined. */
size_t tokens_first_place(const char *text, size_t len);

/* Finds the first call of setjmp or a variant at or after *START. Sets *START to its name and *END
 * after its closing parenthesis; false when there is none. */
bool tokens_find_setjmp(const char *text, size_t len, size_t *start, size_t *end);

/* Does the text use the attribute `ifunc("NAME")`? */
bool tokens_uses_ifunc(const char *text, size_t len);

#endif
