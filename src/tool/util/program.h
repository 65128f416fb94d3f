/* What a program is called in a heading. */
#ifndef PIANO_TOOL_UTIL_PROGRAM_H
#define PIANO_TOOL_UTIL_PROGRAM_H

#include <stddef.h>

/* The name of the executable PROGRAM, or, where its user called it by another (a link to a binary of many names), that: the first
 * word of COMMAND. As it is in the file: not yet safe to show. "" when neither says anything. */
const char *program_called(char *text, size_t size, const char *program, const char *command);

#endif
