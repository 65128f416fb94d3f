/* Between recordings and the symbolizer: modules, and names that a recording has kept, those of the kernel too. */
#ifndef PIANO_TOOL_REPORT_KEPT_H
#define PIANO_TOOL_REPORT_KEPT_H

#include "tool/load/recording.h"
#include "tool/symbol/symbol.h"

/* M as the symbolizer wants it; good for as long as M is. */
struct symbol_module kept_module(const struct recording_module *m);
/* Gives SYMBOLS what REC, which must outlive it, has kept. */
void kept_give(const struct recording *rec, struct symbols *symbols);
/* The name of PC, in the kernel; false when none is kept. */
bool kept_kernel(const struct recording *rec, uint64_t pc, struct symbol_frame *frame);

#endif
