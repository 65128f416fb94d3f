/* Call frame information of files that have it without a table to search. */
#ifndef PIANO_TOOL_UNWIND_TABLES_H
#define PIANO_TOOL_UNWIND_TABLES_H

#include <elf.h>

#include "common/cfi.h"

/* Copies .eh_frame of the file FD, with header E, and makes a table for it. What *CFI then reads, malloc'd; NULL when
 * there is nothing to be had. */
unsigned char *tables_make(int fd, const Elf64_Ehdr *e, struct piano__cfi *cfi);

#endif
