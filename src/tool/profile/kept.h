/* Connects recordings and the symbolizer: modules, and names stored in a recording, including
 * those of the kernel. */
#ifndef PIANO_TOOL_PROFILE_KEPT_H
#define PIANO_TOOL_PROFILE_KEPT_H

#include "tool/load/recording.h"
#include "tool/symbol/symbol.h"

/* M as the symbolizer's type; valid as long as M is. */
struct symbol_module kept_module(const struct recording_module *m);
/* Gives SYMBOLS the names stored in REC, which must outlive it. */
void kept_give(const struct recording *rec, struct symbols *symbols);
/* The name of kernel address PC; false if none is stored. */
bool kept_kernel(const struct recording *rec, uint64_t pc, struct symbol_frame *frame);

#endif
