/* What a recording contains about a range of one thread's time, such as a poll or a frame: CPU
 * samples, times off the CPU and live blocks, with their stacks. They are matched exactly by
 * thread and time. */
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
    uint32_t stack; /* index in the recording of one of their stacks */
    uint64_t samples, ns;
    double bytes, objects; /* for blocks: estimated totals */
    bool preempted;
};

/* Stacks of KIND (enum piano__sample_kind) in SPAN, heaviest first; resolves their names. Times
 * off the CPU are clipped to the span; one without an end lasts until END_NS. Malloc'd; NULL if
 * there are none or memory is exhausted. */
struct stretch_stack *stretch_stacks(struct heap *named, const struct companion_span *span,
                                     uint64_t end_ns, unsigned kind, size_t *count);
/* The same for BLOCKS (`recording_blocks`) allocated in SPAN. */
struct stretch_stack *stretch_blocks(struct heap *named, const struct companion_span *span,
                                     const struct recording_block *blocks, size_t block_count,
                                     size_t *count);

/* "leaf < caller < ...": the innermost frames that fit into the line of O after INDENT columns,
 * or all frames with O->all. MEMORY omits the frames between a program and its malloc. FRAMES of
 * HEAP_MAX_FRAMES. Malloc'd, or NULL. */
char *stretch_text(const struct heap *named, uint32_t stack, const struct report_options *o,
                   size_t indent, bool memory, const struct symbol_frame **frames);

/* The same for COUNT frames, starting at FIRST; they fit. */
char *stretch_line(const struct symbol_frame *const *frames, size_t first, size_t count,
                   const struct report_options *o, size_t indent);
/* Whether the frame is plumbing, which is skipped if the stack has frames of the program itself. */
bool stretch_is_passed(const struct symbol_frame *frame);

/* The innermost function of the program itself that is on the stacks of more than half of the
 * samples in LIST. */
struct stretch_mostly {
    const char *function; /* NULL: none */
    uint32_t stack;       /* the heaviest stack that contains it */
    size_t frame;         /* its frame in that stack */
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
