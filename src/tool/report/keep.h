/* Putting the names of all addresses of a recording into it, while the files that ran are there to be asked. */
#ifndef PIANO_TOOL_REPORT_KEEP_H
#define PIANO_TOOL_REPORT_KEEP_H

#include <stdbool.h>

struct symbols;

/* Into the recording at PATH, which nobody writes to any more, with names by SYMBOLS, unless IS_ASKED says that there is something better to do (looked at again and
 * again; NULL: there never is). 0, also when there is nothing to keep; or negative errno, and the file is as it was: -ENOSPC when
 * some names (then the file has the others) or all had no room, -EINTR when it was given up. */
int keep_names(const char *path, struct symbols *symbols, bool (*is_asked)(void));

#endif
