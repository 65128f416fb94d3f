/* Walks a stack that was copied from another process, starting with the registers at that
 * moment. */
#ifndef PIANO_TOOL_UNWIND_WALK_H
#define PIANO_TOOL_UNWIND_WALK_H

#include <stdint.h>

#include "common/recording.h"
#include "tool/unwind/machine.h"
#include "tool/unwind/space.h"

struct unwind_regs {
    uint64_t pc;
    uint64_t general[32]; /* by DWARF number */
};

/* The bytes at address START. */
struct unwind_memory {
    const unsigned char *bytes;
    uint64_t start, size;
};

/* Return addresses, innermost first, as in struct piano__stack. An address that is not a return
 * address is stored as pc + 1. */
struct unwind_stack {
    uint32_t depth;
    uint32_t flags; /* enum piano__stack_flags */
    uint64_t pcs[PIANO_MAX_FRAMES];
};

struct unwinder;
struct unwinder *unwinder_new(void);
void unwinder_free(struct unwinder *u);
struct codes *unwinder_codes(struct unwinder *u);

/* Appends the frames, starting at REGS, to OUT, which may already hold some. */
void unwind(struct unwinder *u, struct space *space, const struct unwind_regs *regs,
            const struct unwind_memory *memory, struct unwind_stack *out);

#endif
