/* Finds the bounds of stacks. */
#ifndef PIANO_TARGET_SYS_STACK_H
#define PIANO_TARGET_SYS_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether ADDRESS is in the mapping of the stack that the caller runs on. LOW and HIGH
 * cache its bounds and are 0 at first. They are looked up again when the caller runs on another
 * stack. */
bool piano__stack_holds(uintptr_t *low, uintptr_t *high, uintptr_t address);

/* The stack that a thread was started on. The memory from any stack pointer in it up to `high`
 * stays readable while the thread lives. Initially zero. */
struct piano__stack_bounds {
    uintptr_t low, high;
    uintptr_t floor; /* the first thread's stack may grow down to here */
};

/* Returns whether SP is on the thread's own stack; false also if that is unknown. Looks up the
 * mappings the first time, and when the stack has grown. */
bool piano__stack_is_own(struct piano__stack_bounds *bounds, uintptr_t sp);

/* Returns the stack pointer of the calling function. */
static inline __attribute__((always_inline)) uintptr_t piano__stack_pointer(void)
{
    uintptr_t sp;
#ifdef __x86_64__
    __asm__ __volatile__("mov %%rsp, %0" : "=r"(sp));
#elif defined(__aarch64__)
    __asm__ __volatile__("mov %0, sp" : "=r"(sp));
#else
    sp = (uintptr_t)__builtin_frame_address(0);
#endif
    return sp;
}

/* Returns whether a function that ran at stack pointer HOLDER has been left, given that its thread
 * now runs at HERE. That is so in two cases. Both are on the thread's own stack, and HERE is not
 * below HOLDER, where a signal handler would run. Or HOLDER is on the alternate signal stack and
 * the thread is not. Returns false if it is unknown: on an alternate signal stack, and on a
 * coroutine's stack. */
bool piano__stack_is_left(struct piano__stack_bounds *bounds, uintptr_t holder, uintptr_t here);

#endif
