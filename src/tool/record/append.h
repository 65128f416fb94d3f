/* Whole chunks behind a recording that nobody writes to any more. */
#ifndef PIANO_TOOL_RECORD_APPEND_H
#define PIANO_TOOL_RECORD_APPEND_H

#include <stddef.h>
#include <stdint.h>

/* COUNT chunks, as they are at DATA, behind the first CHUNKS, which must be all there are. All of them are there afterwards or none:
 * then negative errno is returned. The file's times stay as they were. */
int append_chunks(const char *path, uint64_t chunks, const char *data, size_t count);

#endif
