/* What a walk of the own stack needs to know about x86-64 and aarch64; common/machine.h has the
 * rest. */
#ifndef PIANO_TARGET_UNWIND_MACHINE_H
#define PIANO_TARGET_UNWIND_MACHINE_H

#include <stdint.h>

#include "common/machine.h"

#if defined(__x86_64__)

static inline uintptr_t piano__machine_strip(uintptr_t address)
{
    return address;
}

/* Reads the current registers. If the compiler uses one of them for an output, the function has
 * saved it, and the walk finds it there. */
#define PIANO_REGISTERS_HERE(pc, sp, fp, base)                                                     \
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3"         \
                     : "=&r"(pc), "=&r"(sp), "=&r"(fp), "=&r"(base))

#else

/* Removes the signature of a return address (xpaclri, which is a nop on older processors). */
static inline uintptr_t piano__machine_strip(uintptr_t address)
{
    register uintptr_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

#define PIANO_REGISTERS_HERE(pc, sp, fp, base)                                                     \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x19"                       \
                     : "=&r"(pc), "=&r"(sp), "=&r"(fp), "=&r"(base))

#endif

#endif
