/* What differs between x86-64 and aarch64 in a walk: registers by name, the frame the kernel puts on the stack for a signal handler, the
 * code that leaves it, and what a call looks like. */
#ifndef PIANO_TARGET_UNWIND_MACHINE_H
#define PIANO_TARGET_UNWIND_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

enum {
    REGISTER_FP = 6,
    REGISTER_SP = 7,
    REGISTER_BASE = 3,
    REGISTER_LR = -1,
    REGISTERS = 16,
    HAS_LINK_REGISTER = 0,
    ADDRESS_BITS = 47,
    SIGNAL_CONTEXT =
        0, /* the ucontext_t is here from the stack pointer when the handler has returned */
    LONGEST_CALL = 7,
};

/* mov $15, %rax; syscall */
#define PIANO_SIGRETURN "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* Where register NUMBER, or the pc (REGISTERS), is in a ucontext_t. */
static inline size_t piano__machine_saved(unsigned number)
{
    static const uint8_t order[REGISTERS + 1] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    return offsetof(ucontext_t, uc_mcontext.gregs) + order[number] * sizeof(greg_t);
}

/* Whether the bytes before AFTER may be a call: e8, or ff /2 in one of its lengths. */
static inline bool piano__machine_is_call(const unsigned char *after)
{
    if (after[-5] == 0xe8)
        return true;
    for (int len = 2; len <= LONGEST_CALL; len++) {
        if (after[-len] == 0xff && (after[1 - len] & 0x38) == 0x10)
            return true;
    }
    return false;
}

static inline uintptr_t piano__machine_strip(uintptr_t address)
{
    return address;
}

/* The registers right here. One that the compiler took for an output was saved by the function, and is found there. */
#define PIANO_REGISTERS_HERE(pc, sp, fp, base)                                                     \
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3"         \
                     : "=&r"(pc), "=&r"(sp), "=&r"(fp), "=&r"(base))

#elif defined(__aarch64__)

enum {
    REGISTER_FP = 29,
    REGISTER_SP = 31,
    REGISTER_BASE = 19,
    REGISTER_LR = 30,
    REGISTERS = 32,
    HAS_LINK_REGISTER = 1,
    ADDRESS_BITS = 48,
    SIGNAL_CONTEXT = 128, /* behind the siginfo_t */
    LONGEST_CALL = 4,
};

/* mov x8, #139; svc #0 */
#define PIANO_SIGRETURN "\x68\x11\x80\xd2\x01\x00\x00\xd4"

static inline size_t piano__machine_saved(unsigned number)
{
    return number == REGISTERS     ? offsetof(ucontext_t, uc_mcontext.pc)
           : number == REGISTER_SP ? offsetof(ucontext_t, uc_mcontext.sp)
                                   : offsetof(ucontext_t, uc_mcontext.regs) + number * 8;
}

/* bl or blr, or one of the latter that checks a signature. */
static inline bool piano__machine_is_call(const unsigned char *after)
{
    uint32_t word;
    memcpy(&word, after - 4, 4);
    return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;
}

/* A signed return address as it was before (xpaclri, which older processors take for a nop). */
static inline uintptr_t piano__machine_strip(uintptr_t address)
{
    register uintptr_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

#define PIANO_REGISTERS_HERE(pc, sp, fp, base)                                                     \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x19"                       \
                     : "=&r"(pc), "=&r"(sp), "=&r"(fp), "=&r"(base))

#else
#error "piano unwinds x86-64 and aarch64"
#endif

#endif
