/* Finds where functions begin in code without symbols: stripped programs keep their unwind
 * tables. */
#ifndef PIANO_TOOL_SYMBOL_STARTS_H
#define PIANO_TOOL_SYMBOL_STARTS_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"

struct starts {
    bool read;
    struct piano__cfi cfi; /* no bytes: no table */
};

/* The start of the function around file address ADDR of MOD; ADDR itself when unknown. */
uint64_t starts_find(struct starts *starts, Dwfl_Module *mod, uint64_t addr);

#endif
