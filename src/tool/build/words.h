/* A growing NULL-terminated list of words: a command line under construction. Owns its words. */
#ifndef PIANO_TOOL_BUILD_WORDS_H
#define PIANO_TOOL_BUILD_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct words {
    char **items; /* NULL-terminated once a word was added */
    size_t count;
    size_t cap;
    bool failed; /* out of memory: check once, at the end */
};

void words_add(struct words *w, const char *word);
void words_addf(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words_release(struct words *w);

/* Splits the text of a response file as compilers do: at white space, except inside single and
 * double quotes. A backslash keeps the next character unchanged. */
void words_split(struct words *w, const char *text);

#endif
