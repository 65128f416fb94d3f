/* Debug information of one file: finds the function around an address, the functions inlined there,
 * and lines. Addresses are those of the debug information. */
#ifndef PIANO_TOOL_SYMBOL_UNITS_H
#define PIANO_TOOL_SYMBOL_UNITS_H

#include <elfutils/libdw.h>

#include "tool/symbol/strings.h"
#include "tool/symbol/symbol.h"

enum { UNITS_FRAMES = 128 };

struct units;

/* The units of DWARF, a file in the directory BESIDE. NULL: out of memory. */
struct units *units_new(Dwarf *dwarf, const char *beside, struct strings *strings);
void units_free(struct units *u);

/* Frames of PC, innermost first, without their modules. 0: no unit contains PC. The function of the
 * last frame is NULL when only file and line are known. *SCOPED is false when its name lacks the
 * scope and parameters that its language has. */
size_t units_find(struct units *u, uint64_t pc, struct symbol_frame frames[UNITS_FRAMES],
                  bool *scoped);

#endif
