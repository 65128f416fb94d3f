/* Evaluates the subset of DWARF expressions that call frame information uses: where a register was
 * saved, where the CFA is stored.
 *
 * Expressions are evaluated symbolically, not on a real frame. A value is a number, or register +
 * n, or (the word in memory at register + n) + m. This covers everything that compilers and
 * assemblers are known to emit, and lets the result be stored as a rule. The pc is a number. So the
 * expression of lazy-binding PLT entries, which tests in which half of its entry the pc is, becomes
 * an ordinary `rsp + n`.
 *
 * There are no jumps, so every iteration consumes a byte. */
#include "common/cfi_expression.h"

enum { DEPTH = 8 };

enum op {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08, /* followed by 1s, 2u, 2s, 4u, 4s, 8u, 8s */
    OP_CONST8S = 0x0f,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_AND = 0x1a,
    OP_MINUS = 0x1c,
    OP_OR = 0x21,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_SHR = 0x25,
    OP_EQ = 0x29,
    OP_GE = 0x2a,
    OP_GT = 0x2b,
    OP_LE = 0x2c,
    OP_LT = 0x2d,
    OP_NE = 0x2e,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_NOP = 0x96,
};

struct expression {
    const struct piano__expr_place *place;
    struct piano__value stack[DEPTH];
    unsigned depth;
    bool bad;
};

static void push(struct expression *e, struct piano__value value)
{
    if (e->depth == DEPTH)
        e->bad = true;
    else
        e->stack[e->depth++] = value;
}

static struct piano__value pop(struct expression *e)
{
    if (e->depth == 0) {
        e->bad = true;
        return (struct piano__value){.kind = PIANO_VALUE_NUMBER};
    }
    return e->stack[--e->depth];
}

static void push_number(struct expression *e, uint64_t n)
{
    push(e, (struct piano__value){.kind = PIANO_VALUE_NUMBER, .n = (int64_t)n});
}

static void push_register(struct expression *e, unsigned reg, int64_t n)
{
    if ((int)reg == e->place->pc_register)
        push_number(e, e->place->pc + (uint64_t)n);
    else
        push(e, (struct piano__value){.kind = PIANO_VALUE_REGISTER, .reg = (uint8_t)reg, .n = n});
}

static void add_number(struct piano__value *v, int64_t n)
{
    if (v->kind == PIANO_VALUE_MEMORY)
        v->plus += n;
    else
        v->n += n;
}

static int64_t compute(struct expression *e, unsigned op, int64_t a, int64_t b)
{
    bool too_far = b < 0 || b > 63;
    switch (op) {
    case OP_AND:
        return a & b;
    case OP_OR:
        return a | b;
    case OP_SHL:
        return too_far ? 0 : (int64_t)((uint64_t)a << b);
    case OP_SHR:
        return too_far ? 0 : (int64_t)((uint64_t)a >> b);
    case OP_EQ:
        return a == b;
    case OP_GE:
        return a >= b;
    case OP_GT:
        return a > b;
    case OP_LE:
        return a <= b;
    case OP_LT:
        return a < b;
    case OP_NE:
        return a != b;
    default:
        e->bad = true;
        return 0;
    }
}

static void run_binary(struct expression *e, unsigned op)
{
    struct piano__value b = pop(e);
    struct piano__value a = pop(e);
    if (op == OP_PLUS && a.kind == PIANO_VALUE_NUMBER) {
        struct piano__value number = a;
        a = b;
        b = number;
    }
    bool is_sum = op == OP_PLUS || op == OP_MINUS;
    e->bad |= b.kind != PIANO_VALUE_NUMBER || (a.kind != PIANO_VALUE_NUMBER && !is_sum);
    if (is_sum)
        add_number(&a, op == OP_PLUS ? b.n : (int64_t)(0 - (uint64_t)b.n));
    else
        a.n = compute(e, op, a.n, b.n);
    push(e, a);
}

static void run_unary(struct expression *e, struct piano__bytes *r, unsigned op)
{
    struct piano__value v = pop(e);
    if (op == OP_PLUS_UCONST) {
        add_number(&v, (int64_t)piano__bytes_unsigned(r));
    } else if (op == OP_DUP) {
        push(e, v);
        /* OP_DEREF. A second dereference cannot be expressed as a struct piano__value. */
    } else {
        e->bad |= v.kind != PIANO_VALUE_REGISTER;
        v.kind = PIANO_VALUE_MEMORY;
        v.plus = 0;
    }
    push(e, v);
}

static void run_operation(struct expression *e, struct piano__bytes *r)
{
    unsigned op = (unsigned)piano__bytes_take(r, 1);
    if (op >= OP_LIT0 && op <= OP_LIT31) {
        push_number(e, op - OP_LIT0);
    } else if (op >= OP_BREG0 && op <= OP_BREG31) {
        push_register(e, op - OP_BREG0, piano__bytes_signed(r));
    } else if (op >= OP_CONST1U && op <= OP_CONST8S) {
        size_t bytes = (size_t)1 << ((op - OP_CONST1U) / 2);
        bool is_signed = op % 2;
        push_number(e, is_signed ? (uint64_t)piano__bytes_take_signed(r, bytes)
                                 : piano__bytes_take(r, bytes));
    } else if (op == OP_CONSTU || op == OP_CONSTS) {
        push_number(e, piano__bytes_take_leb(r, op == OP_CONSTS));
    } else if (op == OP_DEREF || op == OP_DUP || op == OP_PLUS_UCONST) {
        run_unary(e, r, op);
    } else if (op != OP_NOP) {
        run_binary(e, op);
    }
}

bool piano__expr_run(struct piano__bytes block, const struct piano__expr_place *place,
                     struct piano__value *result)
{
    struct expression e = {.place = place, .depth = 0};
    if (place->begins_with_cfa)
        push_register(&e, PIANO_EXPR_CFA, 0);
    while (block.at < block.end && !block.bad && !e.bad)
        run_operation(&e, &block);
    *result = pop(&e);
    return !block.bad && !e.bad;
}
