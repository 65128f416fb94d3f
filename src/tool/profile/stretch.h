/* What a recording contains about a range of one thread's time, such as a poll or a frame: CPU
 * samples, times off the CPU and live blocks, with their stacks. They are matched exactly by
 * thread and time. */
#ifndef PIANO_TOOL_PROFILE_STRETCH_H
#define PIANO_TOOL_PROFILE_STRETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/companion.h"
#include "tool/profile/profile.h"

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
struct stretch_stack *stretch_stacks(struct profile *profile, const struct companion_span *span,
                                     uint64_t end_ns, unsigned kind, size_t *count);
/* The same for BLOCKS (`recording_blocks`) allocated in SPAN. */
struct stretch_stack *stretch_blocks(struct profile *profile, const struct companion_span *span,
                                     const struct recording_block *blocks, size_t block_count,
                                     size_t *count);

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
int stretch_mostly(struct stretch_mostly *m, const struct profile *profile,
                   const struct stretch_stack *list, size_t count,
                   const struct symbol_frame **frames);

#endif
