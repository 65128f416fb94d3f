/* How to leave the function at an address: what common/cfi.h says, remembered. */
#ifndef PIANO_TARGET_UNWIND_RULES_H
#define PIANO_TARGET_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"

/* The rule for PC, which is a return address - 1 or the very next instruction; NULL when there is none. It lives for ever, or
 * is in ROOM. Lock-free, signal-safe. */
const struct piano__rule *piano__rules_find(uintptr_t pc, struct piano__rule *room);

/* Whether a function of some module begins at PC, with no other right before it. */
bool piano__rules_begin(uintptr_t pc);

/* Every remembered rule is void. */
void piano__rules_forget(void);

#endif
