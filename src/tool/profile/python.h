/* Python functions among the frames of a stack. */
#ifndef PIANO_TOOL_PROFILE_PYTHON_H
#define PIANO_TOOL_PROFILE_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/profile/profile.h"

/* The module of all Python functions. */
extern const char python_module[];

/* The frame of PC, which must be a Python function; the strings live as long as REC. */
struct symbol_frame python_resolve(const struct recording *rec, uint64_t pc);
/* Whether this is code of the interpreter and not a Python function. */
bool python_is_interpreter(const struct symbol_frame *frame);
/* Removes the interpreter's frames from a stack with Python functions. PCS are DEPTH indices of
 * addresses, innermost first. Returns the number left. */
uint32_t python_trim(const struct profile *heap, uint32_t *pcs, uint32_t depth);

#endif
