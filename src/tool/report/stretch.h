/* What a recording knows of a stretch of one thread's time, be it a poll or a frame: CPU samples, times off the CPU and
 * live blocks in it, with their stacks. By thread and time, exactly. */
#ifndef PIANO_TOOL_REPORT_STRETCH_H
#define PIANO_TOOL_REPORT_STRETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/companion.h"
#include "tool/report/heap.h"
#include "tool/report/report.h"

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

/* "leaf < caller < ...", the innermost frames that fit into the line of O that has INDENT columns already, all with O->all;
 * without what lies between a program and its malloc with MEMORY. FRAMES of HEAP_MAX_FRAMES. Malloc'd, or NULL. */
char *stretch_text(const struct heap *named, uint32_t stack, const struct report_options *o,
                   size_t indent, bool memory, const struct symbol_frame **frames);

/* The same of COUNT frames, from FIRST on; they fit. */
char *stretch_line(const struct symbol_frame *const *frames, size_t first, size_t count,
                   const struct report_options *o, size_t indent);
/* Is it plumbing, which is passed over where there is something of the program's own? */
bool stretch_is_passed(const struct symbol_frame *frame);

/* Where most of it was: the innermost function of the program's own that is on more than half of LIST, by samples. */
struct stretch_mostly {
    const char *function; /* NULL: there is none */
    uint32_t stack;       /* the heaviest it is on */
    size_t frame;         /* of that stack */
    uint64_t samples, all;
};

/* 0 or -ENOMEM. */
int stretch_mostly(struct stretch_mostly *m, const struct heap *named,
                   const struct stretch_stack *list, size_t count,
                   const struct symbol_frame **frames);
/* "all of it in function < caller ...", "91 % in ...". Malloc'd, or NULL. */
char *stretch_mostly_text(const struct stretch_mostly *m, const struct heap *named,
                          const struct report_options *o, size_t indent,
                          const struct symbol_frame **frames);

#endif
