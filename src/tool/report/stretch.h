/* What a recording knows of a stretch of one thread's time, be it a poll or a frame: CPU samples, times off the CPU and
 * live blocks in it, with their stacks. By thread and time, exactly. */
#ifndef PIANO_TOOL_REPORT_STRETCH_H
#define PIANO_TOOL_REPORT_STRETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/companion.h"
#include "tool/report/heap.h"

/* Samples or blocks with the same functions on their stacks. */
struct stretch_stack {
    uint32_t stack; /* index in the recording: one of theirs */
    uint64_t samples, ns;
    double bytes, objects; /* of blocks: what they stand for */
    bool preempted;
};

/* Stacks of KIND (enum piano__sample_kind) in SPAN, heaviest first; names them. Times off are cut to the span; one that did
 * not come back is off until END_NS. Malloc'd; NULL when there are none or memory is out. */
struct stretch_stack *stretch_stacks(struct heap *named, const struct companion_span *span,
                                     uint64_t end_ns, unsigned kind, size_t *count);
/* The same of BLOCKS (`recording_blocks`) that were born in SPAN. */
struct stretch_stack *stretch_blocks(struct heap *named, const struct companion_span *span,
                                     const struct recording_block *blocks, size_t block_count,
                                     size_t *count);

/* "leaf < caller < ...", the innermost frames that fit, all with ALL; without what lies between a program and its malloc
 * with MEMORY. FRAMES of HEAP_MAX_FRAMES. Malloc'd, or NULL. */
char *stretch_text(const struct heap *named, uint32_t stack, bool all, bool memory,
                   const struct symbol_frame **frames);

#endif
