/* Entries of debug information (DIEs): walking them, and what is asked of one. */
#ifndef PIANO_TOOL_SYMBOL_DIES_H
#define PIANO_TOOL_SYMBOL_DIES_H

#include <elfutils/libdw.h>

#include "tool/symbol/ranges.h"
#include "tool/symbol/strings.h"

enum { DIES_DEPTH = 128 }; /* deeper ones are not looked at */

/* Calls VISIT for every entry below ROOT, in order; DEPTH counts from 0. It says whether what is below
 * the entry is wanted too. */
void dies_walk(Dwarf_Die *root, bool (*visit)(void *ctx, Dwarf_Die *die, size_t depth), void *ctx);

/* Adds the addresses of DIE to RANGES. *BUDGET is how many ranges may still be read; 0: no more are. */
void dies_ranges(Dwarf_Die *die, struct ranges *ranges, uint32_t value, size_t *budget);

struct die_name {
    const char *text; /* NULL: it has none */
    bool mangled; /* the file gave the name for linkers, so TEXT is complete: scope, parameters */
};

struct die_name dies_name(Dwarf_Die *die, struct strings *strings);

/* Where the inlined function DIE was called. */
void dies_call_site(Dwarf_Die *die, struct strings *strings, const char **file, unsigned *line);

/* The unit with the entries of unit DIE: itself, or what it refers to in a split debug file. BESIDE is
 * the directory of the file with DIE. */
void dies_unit(Dwarf_Die *die, const char *beside, Dwarf_Die *out);

#endif
