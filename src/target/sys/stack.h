/* Where stacks are. */
#ifndef PIANO_TARGET_SYS_STACK_H
#define PIANO_TARGET_SYS_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Whether ADDRESS lies on the stack the caller runs on now: in the same mapping. LOW and HIGH are the thread's memory of its
 * bounds, 0 at first; the kernel is asked when it runs elsewhere. */
bool piano__stack_holds(uintptr_t *low, uintptr_t *high, uintptr_t address);

/* The stack a thread was started on: memory that stays readable from any stack pointer in it up to `high`, as long as
 * the thread lives. Zero at first. */
struct piano__stack_bounds {
    uintptr_t low, high;
    uintptr_t floor; /* the first thread's stack may grow down to here */
};

/* Whether SP is on it; false also when nobody can say. The kernel is asked the first time, and when the stack has grown. */
bool piano__stack_is_own(struct piano__stack_bounds *bounds, uintptr_t sp);

/* Where the calling function's frame is. */
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

/* Whether a function that ran at the stack pointer HOLDER cannot run any more, since its thread runs at HERE now: both are on
 * the thread's own stack and HERE is not below HOLDER, where a signal handler would be, or HOLDER is on the alternate signal stack and the thread is not. False when that
 * cannot be told: on an alternate signal stack, on that of a coroutine. */
bool piano__stack_is_left(struct piano__stack_bounds *bounds, uintptr_t holder, uintptr_t here);

#endif
