/* Call frame information, as compilers put it into .eh_frame: from the registers of a function at some instruction to
 * those of its caller. */
#ifndef PIANO_COMMON_CFI_H
#define PIANO_COMMON_CFI_H

#include <stdint.h>

/* The CFA (canonical frame address) is the value of the stack pointer in the caller, after the return. */
enum piano__cfa_kind {
    PIANO_CFA_NONE,     /* no rule, or one that cannot be said here */
    PIANO_CFA_REGISTER, /* register + cfa_offset */
    PIANO_CFA_MEMORY, /* what is at register + cfa_offset, + cfa_plus: realigned stacks, signal frames */
};

/* Where the caller's value of a register is. */
enum piano__at {
    PIANO_AT_REGISTER, /* still in the register; the return address: in the link register */
    PIANO_AT_CFA,      /* in memory, this many words from the CFA */
    PIANO_AT_SP,       /* from the stack pointer */
    PIANO_AT_FP,       /* from the frame pointer */
    PIANO_AT_NOWHERE,  /* nobody knows; of the return address: there is no caller */
};

/* Followed: the return address, the frame pointer (rbp, x29), and one more callee-saved register that some code keeps its
 * CFA in (rbx, in which the dynamic linker's lazy binding does; x19). */
struct piano__rule {
    int32_t cfa_offset;
    int16_t cfa_plus;
    int16_t ra, fp, base; /* in words of 8 bytes from the place that is said below */
    uint8_t cfa;          /* enum piano__cfa_kind */
    uint8_t cfa_register; /* by its DWARF number */
    uint8_t ra_at : 4;    /* enum piano__at */
    uint8_t fp_at : 4;
    uint8_t base_at : 4;
    uint8_t is_signal : 1; /* the caller was interrupted: its pc is no return address */
    uint8_t spare : 3;
};
_Static_assert(sizeof(struct piano__rule) == 16, "compared and kept as two words");

/* Numbers of the registers that matter, by DWARF. */
struct piano__cfi_registers {
    uint8_t sp, fp, base, ra;
};
/* NULL for a machine (ELF e_machine) that is not known. */
const struct piano__cfi_registers *piano__cfi_registers(uint16_t machine);

/* Bytes of a loaded segment, wherever they are now, with both .eh_frame_hdr and .eh_frame in them. */
struct piano__cfi {
    const unsigned char *bytes;
    uint64_t size;
    uint64_t
        address; /* what bytes[0] has, or had, in the program: everything below is in its terms */
    uint64_t header; /* .eh_frame_hdr */
    uint16_t machine;
};

/* The rule holds from `start` to before `end`. */
struct piano__cfi_row {
    struct piano__rule rule;
    uint64_t start, end;
};

/* The row for PC. 0; -ENOENT: no function there has any; -ENOTSUP: its rule is PIANO_CFA_NONE, the rest of the row is good;
 * -EINVAL: the bytes make no sense. Reads nothing outside of them, and takes time in proportion to one function's. */
int piano__cfi_find(const struct piano__cfi *cfi, uint64_t pc, struct piano__cfi_row *row);

/* The entry of .eh_frame at ADDRESS, for images without a table; *NEXT is where the one behind it is. 0: of a function, which
 * begins at *START; -ENOENT: what functions share, or one that is not understood; -ENODATA: the end. */
int piano__cfi_entry(const struct piano__cfi *cfi, uint64_t address, uint64_t *start,
                     uint64_t *next);

/* How many functions the table lists, or negative errno; and where the INDEXth begins. */
int64_t piano__cfi_count(const struct piano__cfi *cfi);
int piano__cfi_function(const struct piano__cfi *cfi, uint64_t index, uint64_t *start);

#endif
