/* What an earlier build left that must not be used again. */
#ifndef PIANO_TOOL_BUILD_REFRESH_H
#define PIANO_TOOL_BUILD_REFRESH_H

#include <stdbool.h>

#include "tool/build/records.h"
#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* Appends path, size and time of a file: what tells one version of it from the next. */
void refresh_put_identity(struct buf *b, const char *path);

/* Everything under STATE that belongs to one way of building; FINGERPRINT names the tool, the
 * runtime and the compilers in use. When it is not the one of the last build, all products are
 * thrown away. 0 or negative errno. */
int refresh_fingerprint(const char *state, const char *fingerprint);

/* Throws away the products of the last build. */
int refresh_all(const char *state);

/* Removes the objects whose chosen functions differ under the new selection NOW from what their
 * records say, so that the build makes exactly those again. 0 or negative errno. */
int refresh_selection(const char *state, const struct selection *now);

/* Would compiling U again under NOW come out differently? BEFORE is the selection it was compiled
 * under. */
bool refresh_is_changed(const struct record_unit *u, const struct selection *before,
                        const struct selection *now);

#endif
