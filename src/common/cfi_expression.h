/* Symbolic evaluation of DWARF expressions, for unwind rules. */
#ifndef PIANO_COMMON_CFI_EXPRESSION_H
#define PIANO_COMMON_CFI_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi_bytes.h"

enum { PIANO_EXPR_CFA = 255 }; /* used as a register number: the CFA */

struct piano__value {
    enum { PIANO_VALUE_NUMBER, PIANO_VALUE_REGISTER, PIANO_VALUE_MEMORY } kind;
    uint8_t reg;
    int64_t n;    /* the number, or the offset from the register */
    int64_t plus; /* added to the word in memory */
};

struct piano__expr_place {
    uint64_t pc;
    int pc_register;      /* the register whose value is the pc; -1: none */
    bool begins_with_cfa; /* the CFA is on the stack at the start */
};

/* Returns false if the value of the expression in BLOCK cannot be expressed as a struct
 * piano__value. */
bool piano__expr_run(struct piano__bytes block, const struct piano__expr_place *place,
                     struct piano__value *result);

#endif
