/* The functions of Rust files, and the text of a file with guards. */
#ifndef PIANO_TOOL_BUILD_RUST_TEXT_H
#define PIANO_TOOL_BUILD_RUST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/analyse.h"
#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* What the helper found in a function. */
struct rust_fn {
    unsigned depth;    /* modules around it that are in the same file */
    const char *edits; /* "OFFSET:WHAT ...", see src/rust/src/main.rs */
};

struct rust_file {
    char *path;               /* in the user's tree, absolute */
    const char *allocator;    /* edits of the program's own allocator, or NULL */
    struct analyse functions; /* `fns` in the order of the file */
    struct rust_fn *more;     /* one for each of `functions` */
    char *error;              /* where the parser gave up, and why; or NULL */
    const char **crates;      /* root files of the crates that it is part of */
    size_t crate_count;
    bool is_foreign; /* part of a build script or a procedural macro: not instrumented */
    bool is_root;    /* of a crate */
    bool is_2024;    /* the edition of that crate: extern blocks are unsafe */
};

struct rust_files {
    struct rust_file *items;
    size_t count;
    char *text; /* output of the helper, which the items point into */
};

/* Adds what TEXT, the output of the helper, says; takes ownership of TEXT. ROOT is the project. 0 or
 * negative errno; -EBADMSG if it makes no sense. */
int rust_files_read(struct rust_files *f, char *text, const char *root);
struct rust_file *rust_files_find(const struct rust_files *f, const char *path);
void rust_files_release(struct rust_files *f);

/* Appends the text of FILE, whose content is SOURCE, with guards in its chosen functions. 0 or
 * negative errno; -EBADMSG if the edits do not fit SOURCE. */
int rust_text(struct buf *out, const struct rust_file *file, const struct buf *source,
              const struct selection *selection);

#endif
