/* Addresses in the kernel. */
#ifndef PIANO_TOOL_SYMBOL_KERNEL_H
#define PIANO_TOOL_SYMBOL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/symbol/symbol.h"

/* "[kernel]", the same pointer in all frames. */
extern const char kernel_module[];

bool kernel_is(uint64_t pc);
/* One frame of module "[kernel]". Without names its function is "[kernel]" too. The strings are
 * never freed, and equal ones are the same pointer. */
struct symbol_frame kernel_resolve(uint64_t pc);

#endif
