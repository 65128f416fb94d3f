/* Names for PLT stubs, through which a module calls functions of other modules: "malloc@plt". */
#ifndef PIANO_TOOL_SYMBOL_PLT_H
#define PIANO_TOOL_SYMBOL_PLT_H

#include <gelf.h>
#include <stdint.h>

#include "tool/symbol/ranges.h"
#include "tool/symbol/strings.h"

struct plt {
    struct ranges stubs;
    const char **names;
    size_t count, cap;
};

/* Reads the stubs of ELF (may be NULL; x86-64 only). */
void plt_read(struct plt *p, Elf *elf, uint64_t bias, struct strings *strings);
const char *plt_find(const struct plt *p, uint64_t addr);
void plt_release(struct plt *p);

#endif
