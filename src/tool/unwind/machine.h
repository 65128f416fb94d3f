/* Differences between x86-64 and aarch64 for walking the stack of another process: the order in
 * which the kernel delivers registers. common/machine.h has the rest. */
#ifndef PIANO_TOOL_UNWIND_MACHINE_H
#define PIANO_TOOL_UNWIND_MACHINE_H

#include <asm/perf_regs.h>
#include <elf.h>
#include <stdint.h>

#include "common/machine.h"

enum {
    UNWIND_FP = PIANO_REGISTER_FP,
    UNWIND_SP = PIANO_REGISTER_SP,
    UNWIND_REGISTERS = PIANO_REGISTERS,
};

#if defined(__x86_64__)

enum { UNWIND_MACHINE = EM_X86_64 };

/* The bit of each register in sample_regs_user, indexed by DWARF number; the pc is last. */
static const uint8_t unwind_perf_order[UNWIND_REGISTERS + 1] = {
    PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,
    PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,
    PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
    PERF_REG_X86_R15, PERF_REG_X86_IP};

static inline uint64_t unwind_strip(uint64_t address)
{
    return address;
}

#else

enum { UNWIND_MACHINE = EM_AARCH64 };

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

/* Removes the signature of a signed return address, which is in the bits above the address. */
static inline uint64_t unwind_strip(uint64_t address)
{
    return address & (((uint64_t)1 << PIANO_ADDRESS_BITS) - 1);
}

#endif

#endif
