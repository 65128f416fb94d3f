/* Allocators in executables without symbols. */
#ifndef PIANO_TOOL_RECORD_STRIPPED_H
#define PIANO_TOOL_RECORD_STRIPPED_H

#include "tool/record/recordings.h"

/* The runtime finds an allocator by its symbols. For recordings of executables without symbols, this
 * looks for messages of known allocators in the executable, and notes in the recording what it
 * found. */
void stripped_look(const struct recordings *r);
/* Says which other processes have an allocator that cannot be seen, of those whose recordings are
 * removed because nothing was sampled. */
void stripped_say_dropped(const struct recordings *r);

#endif
