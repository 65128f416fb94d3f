/* What a stack walk needs to know about x86-64 and aarch64: register numbers, the frame that the
 * kernel pushes for a signal handler, the code that returns from it, and what a call instruction
 * looks like. */
#ifndef PIANO_COMMON_MACHINE_H
#define PIANO_COMMON_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

enum {
    PIANO_REGISTER_FP = 6,
    PIANO_REGISTER_SP = 7,
    PIANO_REGISTER_BASE = 3,
    PIANO_REGISTER_LR = -1,
    PIANO_REGISTERS = 16,
    PIANO_HAS_LINK_REGISTER = 0,
    PIANO_ADDRESS_BITS = 47,
    /* Offset of the ucontext_t from the stack pointer after the handler has returned. */
    PIANO_SIGNAL_CONTEXT = 0,
    PIANO_LONGEST_CALL = 7,
};

/* mov $15, %rax; syscall */
#define PIANO_SIGRETURN "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* Returns the offset of register NUMBER, or of the pc (PIANO_REGISTERS), in a ucontext_t. */
static inline size_t piano__machine_saved(unsigned number)
{
    static const uint8_t order[PIANO_REGISTERS + 1] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    return offsetof(ucontext_t, uc_mcontext.gregs) + order[number] * sizeof(greg_t);
}

/* Returns whether the PIANO_LONGEST_CALL bytes before AFTER may end in a call: e8, or ff /2 in any
 * of its lengths. */
static inline bool piano__machine_is_call(const unsigned char *after)
{
    if (after[-5] == 0xe8)
        return true;
    for (int len = 2; len <= PIANO_LONGEST_CALL; len++) {
        if (after[-len] == 0xff && (after[1 - len] & 0x38) == 0x10)
            return true;
    }
    return false;
}

/* Returns whether the call before RETURN_PC, whose bytes end at AFTER, goes to code that begins
 * shortly before PC: then PC is in the function that it called, as far as that can be known. */
static inline bool piano__machine_calls(const unsigned char *after, uint64_t return_pc, uint64_t pc)
{
    enum { LONGEST = 4096 };
    int32_t distance;
    memcpy(&distance, after - 4, 4);
    return after[-5] == 0xe8 && pc - (return_pc + (uint64_t)(int64_t)distance) < LONGEST;
}

#elif defined(__aarch64__)

enum {
    PIANO_REGISTER_FP = 29,
    PIANO_REGISTER_SP = 31,
    PIANO_REGISTER_BASE = 19,
    PIANO_REGISTER_LR = 30,
    PIANO_REGISTERS = 32,
    PIANO_HAS_LINK_REGISTER = 1,
    PIANO_ADDRESS_BITS = 48,
    PIANO_SIGNAL_CONTEXT = 128, /* after the siginfo_t */
    PIANO_LONGEST_CALL = 4,
};

/* mov x8, #139; svc #0 */
#define PIANO_SIGRETURN "\x68\x11\x80\xd2\x01\x00\x00\xd4"

static inline size_t piano__machine_saved(unsigned number)
{
    return number == PIANO_REGISTERS     ? offsetof(ucontext_t, uc_mcontext.pc)
           : number == PIANO_REGISTER_SP ? offsetof(ucontext_t, uc_mcontext.sp)
                                         : offsetof(ucontext_t, uc_mcontext.regs) + number * 8;
}

/* bl or blr, or a blr that authenticates its target. */
static inline bool piano__machine_is_call(const unsigned char *after)
{
    uint32_t word;
    memcpy(&word, after - 4, 4);
    return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;
}

static inline bool piano__machine_calls(const unsigned char *after, uint64_t return_pc, uint64_t pc)
{
    (void)after, (void)return_pc, (void)pc;
    return false;
}

#else
#error "piano unwinds x86-64 and aarch64"
#endif

#endif
