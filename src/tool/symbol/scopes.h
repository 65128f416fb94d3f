/* Namespaces, classes and functions of a unit, and what is inside of what: for functions whose name in
 * full the file does not spell out. */
#ifndef PIANO_TOOL_SYMBOL_SCOPES_H
#define PIANO_TOOL_SYMBOL_SCOPES_H

#include "tool/symbol/dies.h"

struct scope;

struct scopes {
    struct scope *list; /* in the order of the file */
    size_t count, cap;
    Dwarf_CU *unit;
    uint32_t above[DIES_DEPTH + 1]; /* 1 + index of the scope around entries of a depth; 0: none */
};

/* To be called for all entries of a unit, from `dies_walk`. */
void scopes_see(struct scopes *s, Dwarf_Die *die, size_t depth);
/* "outer::Box::sum" for FUNCTION, which calls itself NAME; NULL: it is in no scope, as far as is known. */
const char *scopes_name(const struct scopes *s, Dwarf_Die *function, const char *name,
                        struct strings *strings);
void scopes_release(struct scopes *s);

#endif
