/* The names of language standards. */
#ifndef PIANO_TOOL_BUILD_STANDARD_H
#define PIANO_TOOL_BUILD_STANDARD_H

#include <stdbool.h>

/* As the libclang here calls what -std= calls STD. */
const char *standard_name(const char *std);

/* What a compiler takes a unit for without -std: the usual one, or that of newer compilers (gcc 15 has
 * C23, gcc 16 C++20, clang 16 C++17). */
const char *standard_default(bool cxx, bool clang, bool newer);

#endif
