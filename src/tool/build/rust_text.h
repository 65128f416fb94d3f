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
    unsigned depth;        /* modules around it that are in the same file */
    unsigned last;         /* its last line */
    const char *edits;     /* "OFFSET:WHAT ...", see src/rust/src/main.rs */
    const char *condition; /* of cfg() in this file; "": always compiled */
};

/* A crate that a file is part of. */
struct rust_part {
    const char *root;      /* its root file */
    const char *condition; /* of cfg() under which the file is part of it; "": always */
};

struct rust_file {
    char *path;               /* in the user's tree, absolute */
    const char *allocator;    /* edits of the program's own allocator, or NULL */
    const char *allocator_if; /* condition of cfg() under which it is compiled; "": always */
    struct analyse functions; /* `fns` in the order of the file */
    struct rust_fn *more;     /* one for each of `functions` */
    char *error;              /* where the parser gave up, and why; or NULL */
    struct rust_part *crates; /* those with std */
    size_t crate_count;
    bool is_bare;    /* part of a crate without std: not instrumented */
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
/* Appends a line with the flags of each file, which rust_files_read reads. */
void rust_files_put_flags(struct buf *out, const struct rust_files *f);
struct rust_file *rust_files_find(const struct rust_files *f, const char *path);
void rust_files_release(struct rust_files *f);

/* Appends the text of FILE, whose content is SOURCE, with guards in its chosen functions. 0 or
 * negative errno; -EBADMSG if the edits do not fit SOURCE. */
int rust_text(struct buf *out, const struct rust_file *file, const struct buf *source,
              const struct selection *selection);

#endif
