/* What the recording says about an allocator in the executable. */
#ifndef PIANO_TARGET_HEAP_HIDDEN_H
#define PIANO_TARGET_HEAP_HIDDEN_H

#include <stdint.h>

#include "target/heap/hooks.h"

/* Finds the allocator, and hooks it if possible. */
struct piano__own piano__hidden_find(void);
/* Writes it into the header of the recording. */
void piano__hidden_note(const struct piano__own *own);
/* If `piano__heap_start` returned -ENOTSUP: creates a recording that says why it has no samples. */
void piano__hidden_record(uint64_t rate);

#endif
