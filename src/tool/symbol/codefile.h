/* One file of code: found, checked to be the one that was recorded, and asked about addresses. */
#ifndef PIANO_TOOL_SYMBOL_CODEFILE_H
#define PIANO_TOOL_SYMBOL_CODEFILE_H

#include "tool/symbol/debugfile.h"
#include "tool/symbol/strings.h"
#include "tool/symbol/symbol.h"
#include "tool/symbol/units.h"

struct codefile;

/* The file of MODULE, or its debug file. NULL: neither can be had; *REASON (in STRINGS, or NULL when
 * out of memory) says why. */
struct codefile *codefile_open(const struct symbol_module *module, struct debugfile_search *search,
                               struct strings *strings, const char **reason);
void codefile_free(struct codefile *code);

/* Frames of file address ADDR, without their modules: 0 when it is in no known function. */
size_t codefile_find(struct codefile *code, uint64_t addr,
                     struct symbol_frame frames[UNITS_FRAMES]);

/* Where the function around ADDR begins, by the unwind tables; ADDR when they do not say. */
uint64_t codefile_function(struct codefile *code, uint64_t addr);

#endif
