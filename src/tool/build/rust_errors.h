/* Functions that do not compile with a guard, by what rustc says. */
#ifndef PIANO_TOOL_BUILD_RUST_ERRORS_H
#define PIANO_TOOL_BUILD_RUST_ERRORS_H

#include <stdbool.h>

#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* Takes the guards out of the functions that the errors in MESSAGES are about, in the mirror, and
 * remembers them in STATE and in ADDED. MESSAGES is what rustc printed as JSON, in the working
 * directory. Returns how many functions lost their guards, or negative errno. */
int rust_errors_drop(const char *state, const struct selection *s, const struct buf *messages,
                     struct buf *added);
/* Puts the guards back. */
void rust_errors_undo(const char *state, const struct selection *s, const struct buf *added);

#endif
