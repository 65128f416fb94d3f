/* Is the program to be recorded an interpreter, whose functions only a library inside of it can name? */
#ifndef PIANO_TOOL_RECORD_INTERPRETER_H
#define PIANO_TOOL_RECORD_INTERPRETER_H

#include <stdbool.h>

/* Whether PATH is CPython 3.11 or later, or a script for it. */
bool interpreter_is_python(const char *path);

#endif
