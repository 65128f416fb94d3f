/* Conditions of Rust's cfg(). */
#ifndef PIANO_TOOL_BUILD_RUST_CFG_H
#define PIANO_TOOL_BUILD_RUST_CFG_H

#include <stdbool.h>

/* Does CONDITION, the argument of cfg(), hold for SET, lines of `rustc --print cfg`? An empty condition
 * does, and one that cannot be read. */
bool rust_cfg_holds(const char *condition, const char *set);
/* Is LINE a line of TEXT? */
bool rust_has_line(const char *text, const char *line);

#endif
