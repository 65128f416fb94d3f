/* Functions of Python among the frames of a stack. */
#ifndef PIANO_TOOL_REPORT_PYTHON_H
#define PIANO_TOOL_REPORT_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/report/heap.h"

/* The module of all of them. */
extern const char python_module[];

/* The frame of PC, which is one; the strings stay as long as REC. */
struct symbol_frame python_resolve(const struct recording *rec, uint64_t pc);
/* Is this code of the interpreter, and not of a function of Python? */
bool python_is_interpreter(const struct symbol_frame *frame);
/* In a stack that has functions of Python: takes out what the interpreter does in between and before. PCS are DEPTH indices of
 * addresses, innermost first; returns how many are left. */
uint32_t python_trim(const struct heap *heap, uint32_t *pcs, uint32_t depth);

#endif
