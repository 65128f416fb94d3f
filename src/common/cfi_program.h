/* The programs of call frame information. They build the rows of a function, up to the row for a
 * given pc. */
#ifndef PIANO_COMMON_CFI_PROGRAM_H
#define PIANO_COMMON_CFI_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"
#include "common/cfi_bytes.h"

enum { PIANO_CFI_REMEMBERED = 8, PIANO_CFI_FOLLOWED = 3 };

/* Where a register of the caller is: as in struct piano__rule, but in bytes. */
struct piano__cfi_place {
    uint8_t at; /* enum piano__at, or a larger value: cannot be expressed */
    int64_t offset;
};

struct piano__cfi_state {
    uint8_t cfa; /* enum piano__cfa_kind */
    uint8_t cfa_register;
    int64_t cfa_offset, cfa_plus;
    struct piano__cfi_place saved[PIANO_CFI_FOLLOWED];
};

struct piano__cfi_program {
    /* Set by the caller. */
    const struct piano__cfi_registers *registers;
    uint16_t machine;
    uint64_t pc;
    uint64_t code_align;
    int64_t data_align;
    uint64_t row_start,
        /* On entry, the bounds of the function; on return, those of the row for `pc`. */
        row_end;
    /* Internal state. */
    bool at_pc; /* the next instructions belong to a row after the pc */
    unsigned depth;
    struct piano__cfi_state now, initial;
    struct piano__cfi_state remembered[PIANO_CFI_REMEMBERED];
};

/* Runs the program of the CIE, then that of the FDE. Returns false if one of them is malformed. */
bool piano__cfi_program_run(struct piano__cfi_program *p, struct piano__bytes common,
                            struct piano__bytes own);
/* Converts the current row to a rule. Returns false, and PIANO_CFA_NONE, if no rule can express
 * it. */
bool piano__cfi_program_rule(const struct piano__cfi_program *p, struct piano__rule *rule);

#endif
