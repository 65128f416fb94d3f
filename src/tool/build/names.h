/* Function names from the text of sources that were not parsed. */
#ifndef PIANO_TOOL_BUILD_NAMES_H
#define PIANO_TOOL_BUILD_NAMES_H

#include <stddef.h>

struct names {
    const char **items; /* sorted and unique after `names_sort` */
    size_t count;
    size_t cap;
    char **owned; /* texts that items may point into */
    size_t owned_count;
};

/* Adds a name, which must outlive N. Returns 0 or -ENOMEM. */
int names_add(struct names *n, const char *name);
/* Adds every identifier that is followed by a parenthesis. Ignores a file that cannot be read. */
int names_add_source(struct names *n, const char *path);
void names_sort(struct names *n);
void names_release(struct names *n);

#endif
