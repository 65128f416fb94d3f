/* Symbol tables of one file: .symtab, what stripping left of it, or .dynsym; and names for PLT stubs. */
#ifndef PIANO_TOOL_SYMBOL_SYMTAB_H
#define PIANO_TOOL_SYMBOL_SYMTAB_H

#include <elfutils/libdwfl.h>
#include <stdint.h>

#include "tool/symbol/strings.h"

struct symtab;

/* NULL: out of memory. */
struct symtab *symtab_new(Dwfl_Module *mod, struct strings *strings);
void symtab_free(struct symtab *t);
/* The symbol around ADDR, as it is in the file; NULL: there is none. */
const char *symtab_find(const struct symtab *t, uint64_t addr);

#endif
