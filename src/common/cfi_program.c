/* Runs call frame programs: lists of small instructions that change the row of rules or advance to
 * the next row. Three registers are followed; instructions for the others are parsed and ignored.
 * cfi.c gives the overview. */
#include "common/cfi_program.h"

#include <elf.h>
#include <stddef.h>

#include "common/cfi_expression.h"

enum { UNSAYABLE = 15, REGISTERS = 32 };
enum followed { FP, BASE, RA };

enum instruction {
    NOP = 0x00,
    ADVANCE_LOC1 = 0x02,
    ADVANCE_LOC2 = 0x03,
    ADVANCE_LOC4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER_STATE = 0x0a,
    RESTORE_STATE = 0x0b,
    DEF_CFA = 0x0c,
    DEF_CFA_REGISTER = 0x0d,
    DEF_CFA_OFFSET = 0x0e,
    DEF_CFA_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SF = 0x11,
    DEF_CFA_SF = 0x12,
    DEF_CFA_OFFSET_SF = 0x13,
    VAL_OFFSET = 0x14,
    VAL_OFFSET_SF = 0x15,
    VAL_EXPRESSION = 0x16,
    AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
    AARCH64_NEGATE_RA_STATE = 0x2d,
    GNU_ARGS_SIZE = 0x2e,
    GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
    /* with an operand in their low 6 bits */
    ADVANCE_LOC = 0x40,
    OFFSET = 0x80,
    RESTORE = 0xc0,
};

static struct piano__cfi_place *place_of(const struct piano__cfi_program *p,
                                         struct piano__cfi_state *state, uint64_t reg)
{
    return reg == p->registers->fp     ? &state->saved[FP]
           : reg == p->registers->base ? &state->saved[BASE]
           : reg == p->registers->ra   ? &state->saved[RA]
                                       : NULL;
}

static void save(struct piano__cfi_program *p, uint64_t reg, unsigned at, int64_t offset)
{
    struct piano__cfi_place *place = place_of(p, &p->now, reg);
    if (place)
        *place = (struct piano__cfi_place){(uint8_t)at, offset};
}

static void save_scaled(struct piano__cfi_program *p, uint64_t reg, int64_t factor)
{
    save(p, reg, PIANO_AT_CFA, factor * p->data_align);
}

static void restore(struct piano__cfi_program *p, uint64_t reg)
{
    struct piano__cfi_place *place = place_of(p, &p->now, reg);
    if (place)
        *place = *place_of(p, &p->initial, reg);
}

static bool run_expression(const struct piano__cfi_program *p, struct piano__bytes block,
                           bool begins_with_cfa, struct piano__value *value)
{
    /* Column 16 is rip. Its counterpart on aarch64 is the link register, which is not the pc. */
    bool has_pc = p->machine == EM_X86_64;
    struct piano__expr_place place = {.pc = p->pc,
                                      .pc_register = has_pc ? p->registers->ra : -1,
                                      .begins_with_cfa = begins_with_cfa};
    return piano__expr_run(block, &place, value);
}

static void save_expression(struct piano__cfi_program *p, uint64_t reg, struct piano__bytes block)
{
    struct piano__value v;
    unsigned at = UNSAYABLE;
    if (!place_of(p, &p->now, reg))
        return;
    if (run_expression(p, block, true, &v) && v.kind == PIANO_VALUE_REGISTER)
        at = v.reg == PIANO_EXPR_CFA     ? PIANO_AT_CFA
             : v.reg == p->registers->sp ? PIANO_AT_SP
             : v.reg == p->registers->fp ? PIANO_AT_FP
                                         : UNSAYABLE;
    save(p, reg, at, at == UNSAYABLE ? 0 : v.n);
}

static void set_cfa(struct piano__cfi_program *p, uint64_t reg, int64_t offset)
{
    p->now.cfa = reg < REGISTERS ? PIANO_CFA_REGISTER : PIANO_CFA_NONE;
    p->now.cfa_register = (uint8_t)reg;
    p->now.cfa_offset = offset;
    p->now.cfa_plus = 0;
}

static void set_cfa_expression(struct piano__cfi_program *p, struct piano__bytes block)
{
    struct piano__value v;
    p->now.cfa = PIANO_CFA_NONE;
    if (!run_expression(p, block, false, &v) || v.kind == PIANO_VALUE_NUMBER)
        return;
    set_cfa(p, v.reg, v.n);
    if (v.kind == PIANO_VALUE_MEMORY) {
        p->now.cfa = PIANO_CFA_MEMORY;
        p->now.cfa_plus = v.plus;
    }
}

static void advance(struct piano__cfi_program *p, struct piano__bytes *r, uint64_t by)
{
    uint64_t location = p->row_start + by * p->code_align;
    if (location < p->row_start) {
        r->bad = true;
    } else if (location <= p->pc) {
        p->row_start = location;
    } else {
        p->at_pc = true;
        if (location < p->row_end)
            p->row_end = location;
    }
}

static void remember(struct piano__cfi_program *p, struct piano__bytes *r)
{
    if (p->depth == PIANO_CFI_REMEMBERED)
        r->bad = true;
    else
        p->remembered[p->depth++] = p->now;
}

static void recall(struct piano__cfi_program *p, struct piano__bytes *r)
{
    if (p->depth == 0)
        r->bad = true;
    else
        p->now = p->remembered[--p->depth];
}

/* Runs the instructions whose first operand is a register. */
static void run_register(struct piano__cfi_program *p, struct piano__bytes *r, unsigned op)
{
    uint64_t reg = piano__bytes_unsigned(r);
    switch (op) {
    case OFFSET_EXTENDED:
        save_scaled(p, reg, (int64_t)piano__bytes_unsigned(r));
        break;
    case OFFSET_EXTENDED_SF:
        save_scaled(p, reg, piano__bytes_signed(r));
        break;
    case GNU_NEGATIVE_OFFSET_EXTENDED:
        save_scaled(p, reg, (int64_t)(0 - piano__bytes_unsigned(r)));
        break;
    case RESTORE_EXTENDED:
        restore(p, reg);
        break;
    case UNDEFINED:
        save(p, reg, PIANO_AT_NOWHERE, 0);
        break;
    case SAME_VALUE:
        save(p, reg, PIANO_AT_REGISTER, 0);
        break;
    case DEF_CFA:
        set_cfa(p, reg, (int64_t)piano__bytes_unsigned(r));
        break;
    case DEF_CFA_SF:
        set_cfa(p, reg, piano__bytes_signed(r) * p->data_align);
        break;
    case DEF_CFA_REGISTER:
        set_cfa(p, reg, p->now.cfa_offset);
        break;
    case EXPRESSION:
        save_expression(p, reg, piano__bytes_block(r, piano__bytes_unsigned(r)));
        break;
    case VAL_EXPRESSION:
        piano__bytes_block(r, piano__bytes_unsigned(r));
        save(p, reg, UNSAYABLE, 0);
        break;
    case REGISTER:
    case VAL_OFFSET:
    case VAL_OFFSET_SF:
        piano__bytes_unsigned(r);
        save(p, reg, UNSAYABLE, 0);
        break;
    default:
        r->bad = true;
    }
}

static void run_instruction(struct piano__cfi_program *p, struct piano__bytes *r)
{
    unsigned op = (unsigned)piano__bytes_take(r, 1);
    unsigned operand = op & 0x3f;
    if (op >= ADVANCE_LOC)
        op &= 0xc0;
    switch (op) {
    case NOP:
    /* Return addresses are always stripped of a signature, so this state is not tracked. */
    case AARCH64_NEGATE_RA_STATE:
    case AARCH64_NEGATE_RA_STATE_WITH_PC:
        break;
    case ADVANCE_LOC:
        advance(p, r, operand);
        break;
    case ADVANCE_LOC1:
        advance(p, r, piano__bytes_take(r, 1));
        break;
    case ADVANCE_LOC2:
        advance(p, r, piano__bytes_take(r, 2));
        break;
    case ADVANCE_LOC4:
        advance(p, r, piano__bytes_take(r, 4));
        break;
    case OFFSET:
        save_scaled(p, operand, (int64_t)piano__bytes_unsigned(r));
        break;
    case RESTORE:
        restore(p, operand);
        break;
    case REMEMBER_STATE:
        remember(p, r);
        break;
    case RESTORE_STATE:
        recall(p, r);
        break;
    case DEF_CFA_OFFSET:
        p->now.cfa_offset = (int64_t)piano__bytes_unsigned(r);
        break;
    case DEF_CFA_OFFSET_SF:
        p->now.cfa_offset = piano__bytes_signed(r) * p->data_align;
        break;
    case DEF_CFA_EXPRESSION:
        set_cfa_expression(p, piano__bytes_block(r, piano__bytes_unsigned(r)));
        break;
    case GNU_ARGS_SIZE: /* does not affect the CFA */
        piano__bytes_unsigned(r);
        break;
    default:
        run_register(p, r, op);
    }
}

static bool run(struct piano__cfi_program *p, struct piano__bytes r)
{
    while (r.at < r.end && !r.bad && !p->at_pc)
        run_instruction(p, &r);
    return !r.bad;
}

bool piano__cfi_program_run(struct piano__cfi_program *p, struct piano__bytes common,
                            struct piano__bytes own)
{
    uint64_t start = p->row_start;
    if (!run(p, common) || p->at_pc || p->row_start != start)
        return false; /* a CIE's program must not advance: rows belong to a function */
    p->initial = p->now;
    p->depth = 0;
    return run(p, own);
}

/* Converts the offset of PLACE to words. Returns UNSAYABLE if it is not a multiple of 8 or does not
 * fit. */
static uint8_t pack_place(const struct piano__cfi_place *place, int16_t *words)
{
    *words = (int16_t)(place->offset / 8);
    if ((int64_t)*words * 8 == place->offset)
        return place->at;
    *words = 0;
    return UNSAYABLE;
}

bool piano__cfi_program_rule(const struct piano__cfi_program *p, struct piano__rule *rule)
{
    const struct piano__cfi_state *s = &p->now;
    struct piano__rule r = {.cfa = s->cfa, .cfa_register = s->cfa_register};
    r.cfa_offset = (int32_t)s->cfa_offset;
    r.cfa_plus = (int16_t)s->cfa_plus;
    uint8_t ra_at = pack_place(&s->saved[RA], &r.ra);
    uint8_t fp_at = pack_place(&s->saved[FP], &r.fp);
    uint8_t base_at = pack_place(&s->saved[BASE], &r.base);
    r.ra_at = ra_at;
    r.fp_at = fp_at == UNSAYABLE ? PIANO_AT_NOWHERE : fp_at;
    r.base_at = base_at == UNSAYABLE ? PIANO_AT_NOWHERE : base_at;

    *rule = (struct piano__rule){.cfa = PIANO_CFA_NONE};
    if (ra_at == PIANO_AT_NOWHERE) { /* no caller: the other fields do not matter */
        rule->cfa = PIANO_CFA_REGISTER;
        rule->cfa_register = p->registers->sp;
        rule->ra_at = PIANO_AT_NOWHERE;
        return true;
    }
    bool in_register = ra_at == PIANO_AT_REGISTER && p->machine != EM_AARCH64;
    if (s->cfa == PIANO_CFA_NONE || ra_at == UNSAYABLE || in_register ||
        r.cfa_offset != s->cfa_offset || r.cfa_plus != s->cfa_plus)
        return false;
    *rule = r;
    return true;
}
