/* Inserts the guards into a preprocessed text. */
#ifndef PIANO_TOOL_BUILD_REWRITE_H
#define PIANO_TOOL_BUILD_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/util/buf.h"

struct analyse;
struct selection;

struct rewrite_source {
    const char *text;
    size_t len;
    bool cxx;
    const struct analyse *functions;
    const struct selection *selection;
};

/* Appends the text with the probe, the table of the chosen functions and a guard in each of them to
 * OUT. Line numbers and columns of everything else do not change. Returns 0 or -ENOMEM. */
int rewrite_run(struct buf *out, const struct rewrite_source *source);

#endif
