/* The names of the files of further processes (family.h). */
#ifndef PIANO_TOOL_LOAD_FAMILY_NAME_H
#define PIANO_TOOL_LOAD_FAMILY_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* Parses NAME: BASE-PID or BASE-PID.IMAGE, where IMAGE counts the programs that the process was. */
bool family_parse(const char *name, const char *base, uint32_t *pid, unsigned *image);

#endif
