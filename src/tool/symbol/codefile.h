/* One file of code: finds it, checks that it is the recorded one, and looks up addresses in it. */
#ifndef PIANO_TOOL_SYMBOL_CODEFILE_H
#define PIANO_TOOL_SYMBOL_CODEFILE_H

#include "tool/symbol/debugfile.h"
#include "tool/symbol/strings.h"
#include "tool/symbol/symbol.h"
#include "tool/symbol/units.h"

struct codefile;

/* Opens the file of MODULE, or its debug file. Returns NULL when neither is available; *REASON (in
 * STRINGS, or NULL when out of memory) then says why. */
struct codefile *codefile_open(const struct symbol_module *module, struct debugfile_search *search,
                               struct strings *strings, const char **reason);
void codefile_free(struct codefile *code);

/* Frames of file address ADDR, without their modules. 0 when neither a function nor a line is
 * known. */
size_t codefile_find(struct codefile *code, uint64_t addr,
                     struct symbol_frame frames[UNITS_FRAMES]);

/* Start of the function around ADDR, from the unwind tables; ADDR itself when they have no
 * entry. */
uint64_t codefile_function(struct codefile *code, uint64_t addr);

#endif
