/* The copy of the project's tree in which make-like builds run, kept up to date. */
#ifndef PIANO_TOOL_BUILD_MIRROR_H
#define PIANO_TOOL_BUILD_MIRROR_H

#include <stddef.h>

struct mirror {
    const char *root;     /* the user's tree: only read */
    const char *tree;     /* the copy */
    const char *manifest; /* what was copied last time, beside the copy */
};

struct mirror_result {
    size_t copied;
    size_t removed;
    size_t unreadable;  /* files that could not be opened, left out */
    char *unread_names; /* "a, b, c": the first of them, malloc'd, or NULL */
    char *failed;       /* the path an error is about, malloc'd, or NULL */
};

/* Brings the copy up to date. 0 or negative errno; -EFBIG when the tree is too large to be a
 * project. The caller frees the strings of RESULT. */
int mirror_sync(const struct mirror *m, struct mirror_result *result);

/* PATH (absolute or not) with the root's prefix replaced by the copy's; malloc'd. A path that is
 * not below the root is returned as it is. */
char *mirror_map(const struct mirror *m, const char *path);

/* Copies TEXT with each occurrence of the directory FROM, as a whole path component, replaced by
 * TO; malloc'd, LEN updated. NULL only when out of memory. */
char *mirror_replace(const char *text, size_t *len, const char *from, const char *to);

/* rm -r; 0 or negative errno. A path that is not there is no error. */
int mirror_remove(const char *path);

#endif
