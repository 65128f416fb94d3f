/* What differs between x86-64 and aarch64 when the stack of another process is walked: the order in which the kernel
 * hands out registers, the frame of a signal handler, and what a call looks like. */
#ifndef PIANO_TOOL_UNWIND_MACHINE_H
#define PIANO_TOOL_UNWIND_MACHINE_H

#include <asm/perf_regs.h>
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

enum {
    UNWIND_MACHINE = EM_X86_64,
    UNWIND_FP = 6,
    UNWIND_SP = 7,
    UNWIND_BASE = 3,
    UNWIND_LR = -1,
    UNWIND_REGISTERS = 16,
    UNWIND_ADDRESS_BITS = 47,
    UNWIND_SIGNAL_CONTEXT = 0, /* the ucontext_t is here from the stack pointer after the handler */
    UNWIND_LONGEST_CALL = 7,
};

/* mov $15, %rax; syscall */
#define UNWIND_SIGRETURN "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* By DWARF number, and last the pc: the bit of the register in sample_regs_user. */
static const uint8_t unwind_perf_order[UNWIND_REGISTERS + 1] = {
    PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,
    PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,
    PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
    PERF_REG_X86_R15, PERF_REG_X86_IP};

/* Where register NUMBER, or the pc (UNWIND_REGISTERS), is in a ucontext_t. */
static inline size_t unwind_saved(unsigned number)
{
    static const uint8_t order[UNWIND_REGISTERS + 1] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    return offsetof(ucontext_t, uc_mcontext.gregs) + order[number] * sizeof(greg_t);
}

/* Whether CODE, the UNWIND_LONGEST_CALL bytes before an address, may end with a call: e8, or ff /2 in any length. */
static inline bool unwind_is_call(const unsigned char *code)
{
    const unsigned char *after = code + UNWIND_LONGEST_CALL;
    if (after[-5] == 0xe8)
        return true;
    for (int len = 2; len <= UNWIND_LONGEST_CALL; len++) {
        if (after[-len] == 0xff && (after[1 - len] & 0x38) == 0x10)
            return true;
    }
    return false;
}

static inline uint64_t unwind_strip(uint64_t address)
{
    return address;
}

#elif defined(__aarch64__)

enum {
    UNWIND_MACHINE = EM_AARCH64,
    UNWIND_FP = 29,
    UNWIND_SP = 31,
    UNWIND_BASE = 19,
    UNWIND_LR = 30,
    UNWIND_REGISTERS = 32,
    UNWIND_ADDRESS_BITS = 48,
    UNWIND_SIGNAL_CONTEXT = 128, /* behind the siginfo_t */
    UNWIND_LONGEST_CALL = 4,
};

/* mov x8, #139; svc #0 */
#define UNWIND_SIGRETURN "\x68\x11\x80\xd2\x01\x00\x00\xd4"

static const uint8_t unwind_perf_order[UNWIND_REGISTERS + 1] = {0,
                                                                1,
                                                                2,
                                                                3,
                                                                4,
                                                                5,
                                                                6,
                                                                7,
                                                                8,
                                                                9,
                                                                10,
                                                                11,
                                                                12,
                                                                13,
                                                                14,
                                                                15,
                                                                16,
                                                                17,
                                                                18,
                                                                19,
                                                                20,
                                                                21,
                                                                22,
                                                                23,
                                                                24,
                                                                25,
                                                                26,
                                                                27,
                                                                28,
                                                                29,
                                                                30,
                                                                PERF_REG_ARM64_SP,
                                                                PERF_REG_ARM64_PC};

static inline size_t unwind_saved(unsigned number)
{
    return number == UNWIND_REGISTERS ? offsetof(ucontext_t, uc_mcontext.pc)
           : number == UNWIND_SP      ? offsetof(ucontext_t, uc_mcontext.sp)
                                      : offsetof(ucontext_t, uc_mcontext.regs) + number * 8;
}

/* bl or blr, or one of the latter that checks a signature. */
static inline bool unwind_is_call(const unsigned char *code)
{
    uint32_t word;
    memcpy(&word, code, 4);
    return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;
}

/* A signed return address: what is above the bits of an address is the signature. */
static inline uint64_t unwind_strip(uint64_t address)
{
    return address & (((uint64_t)1 << UNWIND_ADDRESS_BITS) - 1);
}

#else
#error "piano unwinds x86-64 and aarch64"
#endif

#endif
