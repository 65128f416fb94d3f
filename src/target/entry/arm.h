/* Copies the first instructions of a function of aarch64. See code.h. */
#ifndef PIANO_TARGET_ENTRY_ARM_H
#define PIANO_TARGET_ENTRY_ARM_H

#include "target/entry/code.h"

int piano__arm_move(const struct piano__code *code, struct piano__code_plan *plan);
int piano__arm_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high);

#endif
