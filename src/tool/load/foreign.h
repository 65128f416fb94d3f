/* Describes files that are not piano's, for messages. */
#ifndef PIANO_TOOL_LOAD_FOREIGN_H
#define PIANO_TOOL_LOAD_FOREIGN_H

#include <stddef.h>

/* Describes a file by its first LEN bytes, e.g. "an ELF file". NULL if it may be a run. */
const char *foreign_kind(const char *data, size_t len);
/* The same for the file at PATH. NULL if it cannot be read. */
const char *foreign_kind_of(const char *path);

#endif
