/* Stores the names of all addresses in a recording, while the files that ran still exist. */
#ifndef PIANO_TOOL_RECORD_KEEP_H
#define PIANO_TOOL_RECORD_KEEP_H

#include <stdbool.h>

struct symbols;

/* Resolves names with SYMBOLS and appends them to the recording at PATH, which must have no
 * other writer. Stops when IS_ASKED returns true; it is called repeatedly and may be NULL.
 * Returns 0, also if there is nothing to store, or negative errno. The file is unchanged on
 * errors, except that -ENOSPC may mean that only some names had room and were stored. -EINTR:
 * stopped by IS_ASKED. */
int keep_names(const char *path, struct symbols *symbols, bool (*is_asked)(void));

#endif
