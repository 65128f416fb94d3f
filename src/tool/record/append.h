/* Appends whole chunks to a recording that is no longer being written. */
#ifndef PIANO_TOOL_RECORD_APPEND_H
#define PIANO_TOOL_RECORD_APPEND_H

#include <stddef.h>
#include <stdint.h>

/* Appends the COUNT chunks at DATA after the first CHUNKS, which must be all chunks of the file.
 * Appends all or none: on failure returns negative errno. Keeps the times of the file. */
int append_chunks(const char *path, uint64_t chunks, const char *data, size_t count);

#endif
