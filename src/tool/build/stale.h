/* Recognises products of a build in a project's tree, which must not be copied. */
#ifndef PIANO_TOOL_BUILD_STALE_H
#define PIANO_TOOL_BUILD_STALE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Paths that git tracks, sorted. `known` is false outside a repository. */
struct stale_tracked {
    char *text;
    const char **paths;
    size_t count;
    bool known;
};

/* Asks git about ROOT. On any failure `known` stays false. SCRATCH is a file that we may write. */
void stale_tracked_load(struct stale_tracked *t, const char *root, const char *scratch);
void stale_tracked_release(struct stale_tracked *t);

/* Should this directory (PATH absolute, NAME its last component) be omitted? */
bool stale_is_dir(const char *path, const char *name);

enum stale_kind {
    STALE_NO,      /* source, data, script: copied */
    STALE_PRODUCT, /* object, executable, libtool file, precompiled header: made by a build */
    STALE_LIBRARY, /* shared object or archive: made by a build or part of the project */
};

enum stale_kind stale_kind(const char *path, const char *name);
/* Is NAME that of a C or C++ source or header? */
bool stale_is_source(const char *name);
/* Should the file be omitted? REL is relative to the root; NEWEST_SOURCE is the time of the newest
 * source. */
bool stale_leaves_out(enum stale_kind kind, const struct stale_tracked *t, const char *rel,
                      struct timespec mtime, struct timespec newest_source);

#endif
