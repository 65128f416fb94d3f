/* Entries of debug information (DIEs): walks them and reads their attributes. */
#ifndef PIANO_TOOL_SYMBOL_DIES_H
#define PIANO_TOOL_SYMBOL_DIES_H

#include <elfutils/libdw.h>

#include "tool/symbol/ranges.h"
#include "tool/symbol/strings.h"

enum { DIES_DEPTH = 128 }; /* deeper entries are ignored */

/* Calls VISIT for every entry below ROOT, in file order. DEPTH counts from 0. VISIT returns whether
 * to descend into the entry. */
void dies_walk(Dwarf_Die *root, bool (*visit)(void *ctx, Dwarf_Die *die, size_t depth), void *ctx);

/* Adds the address ranges of DIE to RANGES. *BUDGET is the number of ranges that may still be read;
 * 0: none. */
void dies_ranges(Dwarf_Die *die, struct ranges *ranges, uint32_t value, size_t *budget);

struct die_name {
    const char *text; /* NULL: no name */
    bool mangled;     /* from the linkage name, so TEXT includes scope and parameters */
};

struct die_name dies_name(Dwarf_Die *die, struct strings *strings);

/* The place where the inlined function DIE was called. */
void dies_call_site(Dwarf_Die *die, struct strings *strings, const char **file, unsigned *line);

/* The unit with the entries of unit DIE: itself, or the unit in a split debug file that it refers
 * to. BESIDE is the directory of the file with DIE. */
void dies_unit(Dwarf_Die *die, const char *beside, Dwarf_Die *out);

#endif
