/* Function names as they stand in the text of sources nobody parsed. */
#ifndef PIANO_TOOL_BUILD_NAMES_H
#define PIANO_TOOL_BUILD_NAMES_H

#include <stddef.h>

struct names {
    const char **items; /* sorted, each once */
    size_t count;
    size_t cap;
    char **owned; /* texts the items may point into */
    size_t owned_count;
};

/* Adds a name that outlives N; 0 or -ENOMEM. */
int names_add(struct names *n, const char *name);
/* Adds every identifier that is followed by a parenthesis. A file that cannot be read adds none. */
int names_add_source(struct names *n, const char *path);
void names_sort(struct names *n);
void names_release(struct names *n);

#endif
