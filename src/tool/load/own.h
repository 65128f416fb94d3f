/* An allocator in the recorded executable (common/allocators.h). */
#ifndef PIANO_TOOL_LOAD_OWN_H
#define PIANO_TOOL_LOAD_OWN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/allocators.h"
#include "common/recording.h"

/* Whether the heap was to be recorded, but its figures are not known. */
bool own_is_hidden(const struct piano__rec_header *h);
/* "jemalloc", or "malloc" for the program's own; NULL: there is no such allocator. */
const char *own_name(const struct piano__rec_header *h);
/* Why it is hidden; NULL if it is not. */
const char *own_reason(const struct piano__rec_header *h);
/* The sentence for the user, without a name that could harm a terminal. Returns TEXT. */
enum { OWN_NOTICE = 512 };
const char *own_notice(char text[OWN_NOTICE], const struct piano__rec_header *h);

#endif
