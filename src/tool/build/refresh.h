/* Removes products of an earlier build that must not be used again. */
#ifndef PIANO_TOOL_BUILD_REFRESH_H
#define PIANO_TOOL_BUILD_REFRESH_H

#include <stdbool.h>

#include "tool/build/records.h"
#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* Appends path, size and time of a file, which identify its version. */
void refresh_put_identity(struct buf *b, const char *path);

/* FINGERPRINT identifies the tool, the runtime and the compilers in use. If it differs from that of
 * the last build, removes all products in STATE. Returns 0 or negative errno. */
int refresh_fingerprint(const char *state, const char *fingerprint);

/* Removes the products of the last build. */
int refresh_all(const char *state);

/* Removes the objects for which the new selection NOW chooses other functions than their records
 * say, so that the build makes exactly those again. Returns 0 or negative errno. */
int refresh_selection(const char *state, const struct selection *now);

/* Would compiling U again under NOW give another result? BEFORE is the selection it was compiled
 * under. */
bool refresh_is_changed(const struct record_unit *u, const struct selection *before,
                        const struct selection *now);

#endif
