/* `piano build` in a Cargo project. */
#ifndef PIANO_TOOL_BUILD_RUST_H
#define PIANO_TOOL_BUILD_RUST_H

#include <stdbool.h>

#include "tool/build/driver.h"
#include "tool/build/rust_text.h"
#include "tool/build/rust_write.h"

/* In the environment of a linker that makes a procedural macro or a build script. */
#define RUST_HOST "PIANO_RUST_HOST"

struct rust {
    bool is_used; /* there is a Cargo.toml, and the helper that reads Rust */
    struct rust_files files;
    struct rust_dropped dropped;
};

/* Does DIR have a Cargo.toml? */
bool rust_is_project(const char *dir);
/* Is the helper there that reads Rust? */
bool rust_can_read(void);
/* How many directories above ROOT the crates in DIR name, beyond its parent: 1 for `../../libs/x`. */
unsigned rust_climbs(const char *dir, const char *root);
/* Puts guards into the Rust files of the mirror. DIR, in the mirror, has the Cargo.toml. Prints
 * errors; an exit status. */
int rust_prepare(struct rust *r, const struct driver *d, const char *dir);
/* After the build: writes the records of what was instrumented. */
void rust_finish(struct rust *r, const struct driver *d);

/* The mark for a crate, whose root file in the mirror is ROOT: one line, empty or why it does not
 * compile with guards, and the conditions of cfg() that hold for it. IS_TEST: with the test harness.
 * Malloc'd. */
char *rust_mark_path(const char *state, const char *root, bool is_test);
/* Is PROGRAM rustc? */
bool rust_is_compiler(const char *program);
/* Runs rustc for `piano cc-wrap`, in place of the compiler that ARGV names, with STATE as
 * PIANO_STATE. An exit status. */
int rust_wrap(const char *state, char *const argv[]);

#endif
