/* A list of the files of a tree, and its file format. */
#ifndef PIANO_TOOL_BUILD_MANIFEST_H
#define PIANO_TOOL_BUILD_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "tool/build/stale.h"

struct manifest_entry {
    char *rel; /* first: the items are sorted by it */
    char type; /* 'f' file, 'l' link, 'd' directory */
    mode_t mode;
    struct timespec mtime;
    int64_t size;
    enum stale_kind kind;
    bool kept; /* loaded manifest: still in the tree; walk: not stale */
};

struct manifest {
    struct manifest_entry *items;
    size_t count;
    size_t cap;
    int64_t bytes;
    struct timespec newest_source;
};

/* Appends a new entry with `kept` set; NULL when out of memory. */
struct manifest_entry *manifest_add(struct manifest *m, const char *rel);
void manifest_sort(struct manifest *m);
/* Searches a sorted manifest; NULL when the entry does not exist. */
struct manifest_entry *manifest_find(const struct manifest *m, const char *rel);
/* Reads a saved manifest, sorted, with `kept` false in all entries; a missing file is an empty
 * manifest. Returns 0 or negative errno. */
int manifest_load(struct manifest *m, const char *path);
/* Writes the entries with `kept` set. */
int manifest_save(const struct manifest *m, const char *path);
void manifest_release(struct manifest *m);

#endif
