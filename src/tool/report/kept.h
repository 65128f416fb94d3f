/* Names that a recording has kept, for the symbolizer and for addresses of the kernel. */
#ifndef PIANO_TOOL_REPORT_KEPT_H
#define PIANO_TOOL_REPORT_KEPT_H

#include "tool/load/recording.h"
#include "tool/symbol/symbol.h"

/* Gives SYMBOLS what REC, which must outlive it, has kept. */
void kept_give(const struct recording *rec, struct symbols *symbols);
/* The name of PC, in the kernel; false when none is kept. */
bool kept_kernel(const struct recording *rec, uint64_t pc, struct symbol_frame *frame);

#endif
