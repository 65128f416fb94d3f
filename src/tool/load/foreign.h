/* Files that are not piano's: what they look like, for messages. */
#ifndef PIANO_TOOL_LOAD_FOREIGN_H
#define PIANO_TOOL_LOAD_FOREIGN_H

#include <stddef.h>

/* What LEN bytes at the beginning of a file look like, "an ELF file"; NULL when they may be those of a run. */
const char *foreign_kind(const char *data, size_t len);
/* The same of the file at PATH; one that cannot be read may be anything, and is NULL. */
const char *foreign_kind_of(const char *path);

#endif
