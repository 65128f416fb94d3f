/* Walking the calling thread's stack without frame pointers: lock-free, signal-safe, never faulting. */
#ifndef PIANO_TARGET_UNWIND_WALK_H
#define PIANO_TARGET_UNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/sys/stack.h"

/* What a thread knows about its own stack: zero at first, kept by the thread (TLS), touched by nobody else. A walk in
 * a signal handler may use the same one as the walk it interrupts. */
struct piano__walker {
    struct piano__stack_bounds stack;
};

/* Return addresses, innermost first: the call is at pc-1. For a function that was interrupted by a signal, where
 * the pc is that of the next instruction, it is pc+1. */
struct piano__walk {
    uint32_t depth;
    uint32_t flags; /* enum piano__stack_flags: LOST, FULL, BY_FP */
    uint64_t pcs[PIANO_MAX_FRAMES];
    /* A frame lies from its own stack pointer to that of its caller, the next. */
    uint64_t sps[PIANO_MAX_FRAMES + 1];
    bool is_interrupted;              /* the way went through a signal frame */
    uint64_t spare[PIANO_MAX_FRAMES]; /* for who puts something else into `pcs` */
};

/* Registers at some instruction. `general` is by DWARF number: of x86-64, 0 to 15 (3 rbx, 6 rbp, 7 rsp); of aarch64,
 * 0 to 31 (29 fp, 30 lr, 31 sp). */
struct piano__regs {
    uintptr_t pc;
    uintptr_t general[32];
};

/* The stack from the caller on. Inside libpiano.so its own innermost frames are left out, however many they are;
 * linked into something else, only this function's own. */
void piano__walk_here(struct piano__walker *w, struct piano__walk *out);

/* The stack from REGS on, which may be anything; the function at regs->pc comes first. */
void piano__walk_from(struct piano__walker *w, const struct piano__regs *regs,
                      struct piano__walk *out);

/* The registers of the code that a signal interrupted; CONTEXT is the third argument of its handler. */
void piano__regs_of_signal(struct piano__regs *regs, const void *context);

/* After dlclose: whatever was learned about addresses is void. Any thread, any time. */
void piano__walk_forget(void);

#endif
