/* The copy of the project's tree in which builds run, kept up to date. */
#ifndef PIANO_TOOL_BUILD_MIRROR_H
#define PIANO_TOOL_BUILD_MIRROR_H

#include <stddef.h>

/* Maximum number of unreadable files that a result names. */
enum { MIRROR_MAX_NAMED = 3 };

struct mirror {
    const char *root;     /* the user's tree, read-only */
    const char *tree;     /* the copy */
    const char *manifest; /* what was copied last time; beside the copy */
    unsigned above;       /* directories above the root whose names the path of the copy has, too */
};

struct mirror_result {
    size_t copied;
    size_t removed;
    size_t unreadable;  /* files that could not be opened and are missing */
    char *unread_names; /* "a, b, c": the first MIRROR_MAX_NAMED, malloc'd, or NULL */
    char *failed;       /* the path that caused an error, malloc'd, or NULL */
};

/* Updates the copy. Returns 0 or negative errno; -EFBIG when the tree is too large for a project.
 * The caller frees the strings of RESULT. */
int mirror_sync(const struct mirror *m, struct mirror_result *result);

/* PATH (absolute or not) with the root's prefix replaced by the copy's; malloc'd. A path that is
 * not below the root is returned unchanged. */
char *mirror_map(const struct mirror *m, const char *path);

/* Copies TEXT with each occurrence of the directory FROM, as a whole path component, replaced by
 * TO; malloc'd, LEN updated. NULL only when out of memory. */
char *mirror_replace(const char *text, size_t *len, const char *from, const char *to);

/* rm -r. Returns 0 or negative errno. A missing path is not an error. */
int mirror_remove(const char *path);

#endif
