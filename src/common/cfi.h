/* Call frame information, as compilers put it into .eh_frame. It leads from the registers of a
 * function at some instruction to those of its caller. */
#ifndef PIANO_COMMON_CFI_H
#define PIANO_COMMON_CFI_H

#include <stdint.h>

/* The CFA (canonical frame address) is the value of the stack pointer in the caller, after the
 * return. */
enum piano__cfa_kind {
    PIANO_CFA_NONE,     /* no rule, or one that struct piano__rule cannot express */
    PIANO_CFA_REGISTER, /* register + cfa_offset */
    /* The word at register + cfa_offset, plus cfa_plus: for realigned stacks and signal frames. */
    PIANO_CFA_MEMORY,
};

/* Where the caller's value of a register is. */
enum piano__at {
    PIANO_AT_REGISTER, /* still in the register; for the return address: in the link register */
    PIANO_AT_CFA,      /* in memory, this many words from the CFA */
    PIANO_AT_SP,       /* from the stack pointer */
    PIANO_AT_FP,       /* from the frame pointer */
    PIANO_AT_NOWHERE,  /* unknown; for the return address: there is no caller */
};

/* Three registers are followed: the return address, the frame pointer (rbp, x29), and one more
 * callee-saved register that some code bases its CFA on (rbx, used by the dynamic linker's lazy
 * binding; x19). */
struct piano__rule {
    int32_t cfa_offset;
    int16_t cfa_plus;
    int16_t ra, fp, base; /* in words of 8 bytes, from the place that *_at names */
    uint8_t cfa;          /* enum piano__cfa_kind */
    uint8_t cfa_register; /* DWARF number */
    uint8_t ra_at : 4;    /* enum piano__at */
    uint8_t fp_at : 4;
    uint8_t base_at : 4;
    uint8_t is_signal : 1; /* the caller was interrupted: its pc is not a return address */
    uint8_t spare : 3;
};
_Static_assert(sizeof(struct piano__rule) == 16, "compared and kept as two words");

/* DWARF numbers of the registers that matter. */
struct piano__cfi_registers {
    uint8_t sp, fp, base, ra;
};
/* Returns NULL for an unknown machine (ELF e_machine). */
const struct piano__cfi_registers *piano__cfi_registers(uint16_t machine);

/* The bytes of a loaded segment that contains both .eh_frame_hdr and .eh_frame, or a copy of
 * them. */
struct piano__cfi {
    const unsigned char *bytes;
    uint64_t size;
    /* Address of bytes[0] in the program. All other addresses are in the same address space. */
    uint64_t address;
    uint64_t header; /* .eh_frame_hdr */
    uint16_t machine;
};

/* The rule holds from `start` to before `end`. */
struct piano__cfi_row {
    struct piano__rule rule;
    uint64_t start, end;
};

/* Finds the row for PC. Returns 0; -ENOENT if no function there has call frame information;
 * -ENOTSUP if the rule is PIANO_CFA_NONE but the rest of the row is valid; -EINVAL if the bytes are
 * malformed. Reads only these bytes. The time is proportional to the size of one function's
 * program. */
int piano__cfi_find(const struct piano__cfi *cfi, uint64_t pc, struct piano__cfi_row *row);

/* Reads the .eh_frame entry at ADDRESS, for images without a search table. Sets *NEXT to the
 * address of the following entry. Returns 0 and *START for a function; -ENOENT for a CIE or an
 * entry that is not supported; -ENODATA at the end. */
int piano__cfi_entry(const struct piano__cfi *cfi, uint64_t address, uint64_t *start,
                     uint64_t *next);

/* Return the number of functions in the search table, and the start of function INDEX. Both return
 * a negative errno on failure. */
int64_t piano__cfi_count(const struct piano__cfi *cfi);
int piano__cfi_function(const struct piano__cfi *cfi, uint64_t index, uint64_t *start);

#endif
