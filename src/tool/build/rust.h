/* `piano build` in a Cargo project. */
#ifndef PIANO_TOOL_BUILD_RUST_H
#define PIANO_TOOL_BUILD_RUST_H

#include <stdbool.h>

#include "tool/build/driver.h"
#include "tool/build/rust_text.h"

struct rust {
    bool is_used; /* there is a Cargo.toml, and the helper that reads Rust */
    struct rust_files files;
};

/* Does DIR have a Cargo.toml? */
bool rust_is_project(const char *dir);
/* Is the helper there that reads Rust? */
bool rust_can_read(void);
/* Puts guards into the Rust files of the mirror. DIR, in the mirror, has the Cargo.toml. Prints
 * errors; an exit status. */
int rust_prepare(struct rust *r, const struct driver *d, const char *dir);
/* After the build: writes the records of what was instrumented. */
void rust_finish(struct rust *r, const struct driver *d);

/* The mark for a crate, whose root file in the mirror is ROOT: empty, or why it does not compile with
 * guards. Malloc'd. */
char *rust_mark_path(const char *state, const char *root);
/* Runs rustc for `piano cc-wrap`, in place of the compiler that ARGV names, with STATE as
 * PIANO_STATE. An exit status. */
int rust_wrap(const char *state, char *const argv[]);

#endif
