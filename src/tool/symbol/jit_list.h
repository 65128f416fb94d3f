/* Adding to the names of a process; for the two readers of files. */
#ifndef PIANO_TOOL_SYMBOL_JIT_LIST_H
#define PIANO_TOOL_SYMBOL_JIT_LIST_H

#include "tool/symbol/jit.h"

/* Adds CODE, whose name is set, unless its range makes no sense. 0 or -ENOMEM. */
int jit_add(struct jit_names *j, const struct jit_code *code);
/* Sets the name of CODE, and the place if the text contains it. The name is NULL when out of
 * memory. */
void jit_name(struct jit_names *j, struct jit_code *code, const char *text, size_t len);

#endif
