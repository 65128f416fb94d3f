/* The crates of a Cargo project, as cargo itself describes them. */
#ifndef PIANO_TOOL_BUILD_RUST_METADATA_H
#define PIANO_TOOL_BUILD_RUST_METADATA_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/util/buf.h"

struct rust_crate {
    char *root;      /* its first file, absolute, in the tree that cargo saw */
    bool is_foreign; /* a build script or a procedural macro: code that runs in the compiler */
    bool is_2024;    /* edition 2024 or later */
};

struct rust_crates {
    struct rust_crate *items;
    size_t count;
    char *target_dir; /* where cargo puts its products */
    char **used;      /* directories of crates that the packages name by their paths */
    size_t used_count;
};

/* Asks cargo about the project in DIR with COMMAND, `cargo metadata` with flags. Crates that cargo
 * fetched are left out. 0 or negative errno; -EIO if cargo fails, then MESSAGES has what it printed.
 * The caller releases C in any case. */
int rust_crates_find(struct rust_crates *c, const char *dir, char *const command[],
                     struct buf *messages);
/* The same for the packages of the workspace only. Cargo then writes nothing. */
int rust_crates_find_members(struct rust_crates *c, const char *dir, char *const command[],
                             struct buf *messages);
/* Reads the output of `cargo metadata`. */
int rust_crates_read(struct rust_crates *c, const struct buf *text);
void rust_crates_release(struct rust_crates *c);

#endif
