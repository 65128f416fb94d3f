/* Call frame information of files that have no search table for it. */
#ifndef PIANO_TOOL_UNWIND_TABLES_H
#define PIANO_TOOL_UNWIND_TABLES_H

#include <elf.h>

#include "common/cfi.h"

/* Copies .eh_frame of the file FD, with header E, and builds a table for it. Returns the bytes that
 * *CFI refers to, malloc'd; NULL when the file has none. */
unsigned char *tables_make(int fd, const Elf64_Ehdr *e, struct piano__cfi *cfi);

#endif
