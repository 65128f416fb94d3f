/* The names of language standards. */
#ifndef PIANO_TOOL_BUILD_STANDARD_H
#define PIANO_TOOL_BUILD_STANDARD_H

#include <stdbool.h>

/* The name that the loaded libclang uses for -std=STD. */
const char *standard_name(const char *std);

/* The default standard of a compiler without -std: the usual one, or with NEWER that of newer
 * compilers (gcc 15: C23, gcc 16: C++20, clang 16: C++17). */
const char *standard_default(bool cxx, bool clang, bool newer);

#endif
