/* Demangles C++ and Rust names. */
#ifndef PIANO_TOOL_SYMBOL_DEMANGLE_H
#define PIANO_TOOL_SYMBOL_DEMANGLE_H

#include <stdbool.h>

#include "tool/symbol/strings.h"

/* Could NAME be a mangled name? */
bool demangle_likely(const char *name);

/* NAME demangled, or NAME itself when it is not mangled; NULL: out of memory. */
const char *demangle(struct strings *strings, const char *name);

#endif
