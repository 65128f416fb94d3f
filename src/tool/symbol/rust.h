/* Rust's names as they were written, without hashes. */
#ifndef PIANO_TOOL_SYMBOL_RUST_H
#define PIANO_TOOL_SYMBOL_RUST_H

/* NAME demangled, malloc'd; NULL: it is none of Rust's, or there is no memory. */
char *rust_demangle(const char *name);

/* The two ways to mangle, likewise: "_R...", and "_ZN...E", which looks like C++. */
char *rust_demangle_v0(const char *name);
char *rust_demangle_legacy(const char *name);

#endif
