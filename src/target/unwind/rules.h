/* The unwind rule for an address, from common/cfi.h, cached. */
#ifndef PIANO_TARGET_UNWIND_RULES_H
#define PIANO_TARGET_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"

/* Returns the rule for PC, or NULL if there is none. PC is a return address - 1, or the next
 * instruction. The rule is never freed, or it is stored in ROOM. Lock-free, signal-safe. */
const struct piano__rule *piano__rules_find(uintptr_t pc, struct piano__rule *room);

/* Returns whether a function of a module begins at PC, and no other function ends directly before
 * it. */
bool piano__rules_begin(uintptr_t pc);

/* Voids all cached rules. */
void piano__rules_forget(void);

#endif
