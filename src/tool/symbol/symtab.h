/* The symbol table of one file: .symtab, .gnu_debugdata or .dynsym; and names for PLT stubs. */
#ifndef PIANO_TOOL_SYMBOL_SYMTAB_H
#define PIANO_TOOL_SYMBOL_SYMTAB_H

#include <elfutils/libdwfl.h>
#include <stdint.h>

#include "tool/symbol/strings.h"

struct symtab;

/* NULL: out of memory. */
struct symtab *symtab_new(Dwfl_Module *mod, struct strings *strings);
void symtab_free(struct symtab *t);
/* The raw name of the symbol around ADDR, or NULL. */
const char *symtab_find(const struct symtab *t, uint64_t addr);

#endif
