/* The Rust files of the mirror, and the functions that must stay without a guard. */
#ifndef PIANO_TOOL_BUILD_RUST_WRITE_H
#define PIANO_TOOL_BUILD_RUST_WRITE_H

#include <stdbool.h>

#include "tool/build/rust_text.h"
#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* A function that does not compile with a guard. */
struct rust_drop {
    const char *path;   /* in the user's tree */
    const char *source; /* hash of the text of that file */
    const char *name;   /* qualified */
    const char *reason;
    unsigned line;
};

/* What STATE/rust/dropped says. */
struct rust_dropped {
    struct rust_drop *items;
    size_t count;
    struct buf text; /* the items point into it */
};

/* A missing file is an empty one. 0 or negative errno. */
int rust_dropped_load(struct rust_dropped *d, const char *state);
void rust_dropped_release(struct rust_dropped *d);
/* Adds FN of FILE, and REASON, to the file of STATE, and its line to ADDED. 0 or negative errno. */
int rust_dropped_add(const char *state, const struct rust_file *file, const struct analyse_fn *fn,
                     const char *reason, struct buf *added);
/* Removes the lines ADDED from the file of STATE. 0 or negative errno. */
int rust_dropped_remove(const char *state, const struct buf *added);

/* Sets which functions of FILE get a guard. Why the others do not may point into DROPPED. */
void rust_choose(struct rust_file *file, const struct selection *s,
                 const struct rust_dropped *dropped);
/* Writes the text of FILE into the mirror, unless it is there already. KEEP_TIME: as if it had not
 * changed. 0 or negative errno; -EBADMSG if the functions do not fit the file. */
int rust_write(const struct rust_file *file, const struct selection *s, bool keep_time);

/* Keeps TEXT, the output of the helper, with the flags of the files in F for rust_load. */
int rust_save(const struct rust_files *f, const struct buf *text, const char *state);
int rust_load(struct rust_files *f, const char *state, const struct selection *s);

#endif
