/* Walks the calling thread's stack without frame pointers: lock-free, signal-safe, never faults. */
#ifndef PIANO_TARGET_UNWIND_WALK_H
#define PIANO_TARGET_UNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/sys/stack.h"

/* What a thread knows about its own stack. Initially zero, in TLS, used only by its thread. A walk
 * in a signal handler may use the same walker as the walk it interrupts. */
struct piano__walker {
    struct piano__stack_bounds stack;
};

/* Return addresses, innermost first: the call is at pc-1. For a function that a signal interrupted,
 * the entry is the pc of the next instruction + 1. */
struct piano__walk {
    uint32_t depth;
    uint32_t flags; /* enum piano__stack_flags: LOST, FULL, BY_FP */
    uint64_t pcs[PIANO_MAX_FRAMES];
    /* The frame of function i extends from sps[i] to sps[i + 1]. */
    uint64_t sps[PIANO_MAX_FRAMES + 1];
    bool is_interrupted;              /* the walk passed a signal frame */
    uint64_t spare[PIANO_MAX_FRAMES]; /* scratch space for rewriting `pcs` */
};

/* Registers at some instruction. `general` is indexed by DWARF number: 0 to 15 on x86-64 (3 rbx, 6
 * rbp, 7 rsp), 0 to 31 on aarch64 (29 fp, 30 lr, 31 sp). */
struct piano__regs {
    uintptr_t pc;
    uintptr_t general[32];
};

/* Walks the stack from the caller on. Inside libpiano.so, all of its innermost frames are left out.
 * Linked into something else, only the frame of this function is. */
void piano__walk_here(struct piano__walker *w, struct piano__walk *out);

/* Walks the stack from REGS on, which may contain anything. The function at regs->pc comes
 * first. */
void piano__walk_from(struct piano__walker *w, const struct piano__regs *regs,
                      struct piano__walk *out);

/* Reads the registers of the code that a signal interrupted. CONTEXT is the third argument of its
 * handler. */
void piano__regs_of_signal(struct piano__regs *regs, const void *context);

/* After dlclose: voids everything that was learned about addresses. Any thread, any time. */
void piano__walk_forget(void);

#endif
