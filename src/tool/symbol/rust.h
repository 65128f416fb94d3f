/* Demangles Rust names, without hashes. */
#ifndef PIANO_TOOL_SYMBOL_RUST_H
#define PIANO_TOOL_SYMBOL_RUST_H

/* NAME demangled, malloc'd. NULL: not a Rust name, or out of memory. */
char *rust_demangle(const char *name);

/* The same for each of the two manglings: "_R...", and "_ZN...E", which looks like C++. */
char *rust_demangle_v0(const char *name);
char *rust_demangle_legacy(const char *name);

#endif
