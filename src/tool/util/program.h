/* The name of a program for a heading. */
#ifndef PIANO_TOOL_UTIL_PROGRAM_H
#define PIANO_TOOL_UTIL_PROGRAM_H

#include <stddef.h>

/* Returns the first word of COMMAND, without its directory, if the user started the program under
 * another name (a link to a binary with many names); else the name of the executable PROGRAM. The
 * name comes from the file and is not yet safe to print. "" when both are empty. */
const char *program_called(char *text, size_t size, const char *program, const char *command);

#endif
