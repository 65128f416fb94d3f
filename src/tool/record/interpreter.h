/* Is the program an interpreter, whose functions only a library inside the process can name? */
#ifndef PIANO_TOOL_RECORD_INTERPRETER_H
#define PIANO_TOOL_RECORD_INTERPRETER_H

#include <stdbool.h>

/* Is PATH CPython 3.11 or later, or a script for it? */
bool interpreter_is_python(const char *path);

#endif
