/* Tags: names for runs. Files `tags/NAME` in the runs directory, one run file name per line. */
#ifndef PIANO_TOOL_LOAD_TAGS_H
#define PIANO_TOOL_LOAD_TAGS_H

#include <stdbool.h>
#include <stddef.h>

struct tag {
    char *name;  /* first: the list is sorted by it */
    char **runs; /* file names in the runs directory, or absolute paths */
    size_t run_count;
};

struct tags {
    struct tag *list; /* by name */
    size_t count;
};

/* Returns NULL if NAME can be a tag, else the reason why not. */
const char *tags_name_problem(const char *name);
/* Loads all tags; 0 or negative errno. A missing directory has none. */
int tags_load(struct tags *tags, const char *runs_dir);
const struct tag *tags_find(const struct tags *tags, const char *name);
/* Writes the tag, or adds to it with ADD; 0 or negative errno. */
int tags_write(const char *runs_dir, const char *name, const char *run, bool add);
int tags_delete(const char *runs_dir, const char *name);
void tags_release(struct tags *tags);

#endif
