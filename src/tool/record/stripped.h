/* Allocators in executables without symbols. */
#ifndef PIANO_TOOL_RECORD_STRIPPED_H
#define PIANO_TOOL_RECORD_STRIPPED_H

#include "tool/record/recordings.h"

/* The runtime finds an allocator by its symbols. For recordings of executables without symbols, this
 * looks for messages of known allocators in the executable, and notes in the recording what it
 * found. */
void stripped_look(const struct recordings *r);

#endif
