/* Namespaces, classes and functions of a unit and how they are nested, for functions whose full
 * name is not in the file. */
#ifndef PIANO_TOOL_SYMBOL_SCOPES_H
#define PIANO_TOOL_SYMBOL_SCOPES_H

#include "tool/symbol/dies.h"

struct scope;

struct scopes {
    struct scope *list; /* in file order */
    size_t count, cap;
    Dwarf_CU *unit;
    uint32_t above[DIES_DEPTH + 1]; /* by depth: 1 + index of the enclosing scope; 0: none */
};

/* Call this for all entries of a unit, from `dies_walk`. */
void scopes_see(struct scopes *s, Dwarf_Die *die, size_t depth);
/* "outer::Box::sum" for FUNCTION with the short name NAME; NULL: no known scope. */
const char *scopes_name(const struct scopes *s, Dwarf_Die *function, const char *name,
                        struct strings *strings);
void scopes_release(struct scopes *s);

#endif
