/* The walk over a copied stack.
 *
 * A cursor stands on a function: its pc and what is known of its registers. A step takes it to the caller: by the rule
 * that the file's call frame information has for the pc; through the frame of a signal handler, by the registers that
 * the kernel has saved there; or, where code has neither, by the frame pointer, if what that leads to looks like a
 * frame. Only the bytes that were copied are read: a stack that is longer ends as lost, and so does one that goes on elsewhere
 * (coroutines, alternate signal stacks).
 *
 * It ends because the CFA grows with every step, except through a signal frame, and steps are counted.
 *
 * Rules are kept by file and by address in the file, so that all processes that map it share them. */
#include "tool/unwind/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { RULES = 1 << 14 };

enum known { SP = 1, FP = 2, BASE = 4, LR = 8 };

struct kept_rule {
    const struct code *code;
    uint64_t address;
    struct piano__rule rule;
};

struct unwinder {
    struct codes codes;
    struct kept_rule rules[RULES];
};

struct cursor {
    struct unwinder *unwinder;
    struct space *space;
    const struct unwind_memory *memory;
    uint64_t pc, sp, fp, base, lr;
    unsigned known;                 /* enum known */
    bool is_exact;                  /* the pc is that of the next instruction, no return address */
    const struct unwind_regs *regs; /* all registers, while is_exact; or NULL */
    unsigned flags;                 /* enum piano__stack_flags */
    struct unwind_regs interrupted; /* room for what a signal frame has */
};

enum outcome { GOES_ON, ENDED, LOST };

struct unwinder *unwinder_new(void)
{
    struct unwinder *u = calloc(1, sizeof *u);
    if (u)
        codes_init(&u->codes);
    return u;
}

void unwinder_free(struct unwinder *u)
{
    if (!u)
        return;
    codes_release(&u->codes);
    free(u);
}

struct codes *unwinder_codes(struct unwinder *u)
{
    return &u->codes;
}

static bool read_word(const struct cursor *c, uint64_t at, uint64_t *value)
{
    const struct unwind_memory *m = c->memory;
    if (at % 8 != 0 || m->size < 8 || at < m->start || at - m->start > m->size - 8)
        return false;
    memcpy(value, m->bytes + (at - m->start), sizeof *value);
    return true;
}

static void set_regs(struct cursor *c, const struct unwind_regs *regs)
{
    c->pc = regs->pc;
    c->sp = regs->general[UNWIND_SP];
    c->fp = regs->general[UNWIND_FP];
    c->base = regs->general[UNWIND_BASE];
    c->lr = UNWIND_LR >= 0 ? regs->general[UNWIND_LR & 31] : 0;
    c->known = SP | FP | BASE | (UNWIND_LR >= 0 ? LR : 0);
    c->is_exact = true;
    c->regs = regs;
}

static bool get_register(const struct cursor *c, unsigned number, uint64_t *value)
{
    switch (number) {
    case UNWIND_SP:
        *value = c->sp;
        return c->known & SP;
    case UNWIND_FP:
        *value = c->fp;
        return c->known & FP;
    case UNWIND_BASE:
        *value = c->base;
        return c->known & BASE;
    default:
        *value = c->regs && number < UNWIND_REGISTERS ? c->regs->general[number] : 0;
        return c->regs && number < UNWIND_REGISTERS;
    }
}

/* The caller's value of a register whose own is in VALUE if IS_KNOWN; false when it cannot be had. */
static bool get_saved(const struct cursor *c, unsigned at, int words, uint64_t cfa, uint64_t *value,
                      bool is_known)
{
    uint64_t from = cfa;
    if (at == PIANO_AT_REGISTER)
        return is_known;
    if (at != PIANO_AT_CFA) {
        bool by_sp = at == PIANO_AT_SP;
        if (at == PIANO_AT_NOWHERE || !(c->known & (by_sp ? SP : FP)))
            return false;
        from = by_sp ? c->sp : c->fp;
    }
    return read_word(c, from + (uint64_t)((int64_t)words * 8), value);
}

static bool is_code_address(uint64_t pc)
{
    return pc >= 4096 && pc >> UNWIND_ADDRESS_BITS == 0;
}

/* By the frame pointer --------------------------------------------------------------------------------- */

/* Behind a call in a file. Of code that is in none, or cannot be read, only the chain can speak: it must go on. */
static bool is_return_address(const struct cursor *c, uint64_t pc, uint64_t next_fp)
{
    unsigned char code[UNWIND_LONGEST_CALL];
    uint64_t word;
    if (!is_code_address(pc))
        return false;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, pc - 1);
    if (m && m->code && code_bytes(m->code, pc - m->bias - sizeof code, code, sizeof code))
        return unwind_is_call(code);
    return m && next_fp > c->fp && read_word(c, next_fp, &word) && read_word(c, next_fp + 8, &word);
}

static enum outcome leave_by_fp(struct cursor *c)
{
    uint64_t next_fp;
    uint64_t pc;
    if (!(c->known & FP) || c->fp < c->sp || !read_word(c, c->fp, &next_fp) ||
        !read_word(c, c->fp + 8, &pc))
        return LOST;
    if (pc == 0) {
        c->flags |= PIANO_STACK_BY_FP;
        return ENDED;
    }
    pc = unwind_strip(pc);
    if (!is_return_address(c, pc, next_fp))
        return LOST;
    c->flags |= PIANO_STACK_BY_FP;
    c->pc = pc;
    c->sp = c->fp + 16;
    c->fp = next_fp;
    /* On aarch64 the pair of fp and lr is at the near end of the frame, or anywhere. */
    c->known = UNWIND_LR >= 0 ? FP : FP | SP;
    c->is_exact = false;
    c->regs = NULL;
    return GOES_ON;
}

/* Through a signal frame ------------------------------------------------------------------------------- */

static bool is_sigreturn(const struct cursor *c)
{
    char code[sizeof UNWIND_SIGRETURN - 1];
    if (c->is_exact)
        return false;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, c->pc);
    return m && m->code && code_bytes(m->code, c->pc - m->bias, code, sizeof code) &&
           memcmp(code, UNWIND_SIGRETURN, sizeof code) == 0;
}

static enum outcome leave_signal(struct cursor *c)
{
    struct unwind_regs *regs = &c->interrupted;
    uint64_t context = c->sp + UNWIND_SIGNAL_CONTEXT;
    if (!(c->known & SP) || !read_word(c, context + unwind_saved(UNWIND_REGISTERS), &regs->pc))
        return LOST;
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
        if (!read_word(c, context + unwind_saved(i), &regs->general[i]))
            return LOST;
    }
    set_regs(c, regs);
    return is_code_address(c->pc) ? GOES_ON : LOST;
}

static bool is_signal_frame(const struct cursor *c, const struct piano__rule *rule)
{
    size_t pc_at = UNWIND_SIGNAL_CONTEXT + unwind_saved(UNWIND_REGISTERS);
    return rule->is_signal &&
           ((rule->ra_at == PIANO_AT_SP && (size_t)rule->ra * 8 == pc_at) || is_sigreturn(c));
}

/* By the rules ----------------------------------------------------------------------------------------- */

static struct kept_rule *place_of(struct unwinder *u, const struct code *code, uint64_t address)
{
    uint64_t hash = (address ^ (uint64_t)(uintptr_t)code << 20) * UINT64_C(0x9e3779b97f4a7c15);
    return &u->rules[hash >> 50];
}
_Static_assert(RULES == 1 << (64 - 50), "the hash is cut to the table");

/* The rule for the file's ADDRESS; its cfa is PIANO_CFA_NONE when there is none. */
static const struct piano__rule *find_rule(struct unwinder *u, const struct code *code,
                                           uint64_t address)
{
    struct kept_rule *place = place_of(u, code, address);
    if (place->code != code || place->address != address) {
        struct piano__cfi_row row = {.rule = {.cfa = PIANO_CFA_NONE}};
        if (code->cfi.size > 0 && piano__cfi_find(&code->cfi, address, &row) != 0)
            row.rule.cfa = PIANO_CFA_NONE;
        *place = (struct kept_rule){code, address, row.rule};
    }
    return &place->rule;
}

static bool find_cfa(const struct cursor *c, const struct piano__rule *rule, uint64_t *cfa)
{
    if (!get_register(c, rule->cfa_register, cfa))
        return false;
    *cfa += (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == PIANO_CFA_MEMORY) {
        if (!read_word(c, *cfa, cfa))
            return false;
        *cfa += (uint64_t)(int64_t)rule->cfa_plus;
    }
    /* A function that has not touched the stack has its caller's, if it has no return address there. */
    bool grows = *cfa > c->sp || (*cfa == c->sp && rule->ra_at == PIANO_AT_REGISTER);
    return grows && *cfa % 8 == 0;
}

static enum outcome leave_by_rule(struct cursor *c, const struct piano__rule *rule)
{
    uint64_t cfa;
    uint64_t pc = c->lr;
    uint64_t fp = c->fp;
    uint64_t base = c->base;
    if (!find_cfa(c, rule, &cfa) || !get_saved(c, rule->ra_at, rule->ra, cfa, &pc, c->known & LR))
        return LOST;
    bool has_fp = get_saved(c, rule->fp_at, rule->fp, cfa, &fp, c->known & FP);
    bool has_base = get_saved(c, rule->base_at, rule->base, cfa, &base, c->known & BASE);
    if (pc == 0)
        return ENDED;
    c->pc = unwind_strip(pc);
    c->sp = cfa;
    c->fp = fp;
    c->base = base;
    c->known = SP | (has_fp ? FP : 0) | (has_base ? BASE : 0);
    c->is_exact = rule->is_signal;
    c->regs = NULL;
    return is_code_address(c->pc) ? GOES_ON : LOST;
}

/* Whether the registers that RULE starts from are known: after a step by frame pointer, not all are. */
static bool can_leave(const struct cursor *c, const struct piano__rule *rule)
{
    uint64_t value;
    return get_register(c, rule->cfa_register, &value) &&
           (rule->ra_at != PIANO_AT_REGISTER || (c->known & LR));
}

/* Where the kernel begins a program or its loader. That code need not have a rule that says so. */
static bool is_first_code(const struct mapping *m, uint64_t pc)
{
    enum { FIRST_BYTES = 128 };
    return m && m->code && m->code->is_good && m->code->entry > 0 &&
           pc - m->bias - m->code->entry < FIRST_BYTES;
}

/* No call returns to where a function begins: who made this stack has put that address there (makecontext does). */
static bool begins_function(const struct mapping *m, uint64_t pc)
{
    struct piano__cfi_row row;
    if (!m || !m->code || m->code->cfi.size == 0)
        return false;
    uint64_t address = pc - m->bias;
    return piano__cfi_find(&m->code->cfi, address - 1, &row) == -ENOENT &&
           piano__cfi_find(&m->code->cfi, address, &row) == 0 && row.start == address;
}

static enum outcome leave_without_rule(struct cursor *c)
{
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, c->pc);
    if (is_sigreturn(c))
        return leave_signal(c);
    if (is_first_code(m, c->pc) || (!c->is_exact && begins_function(m, c->pc)))
        return ENDED;
    return leave_by_fp(c);
}

static enum outcome step(struct cursor *c)
{
    uint64_t pc = c->pc - !c->is_exact;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, pc);
    const struct piano__rule *rule =
        m && m->code ? find_rule(c->unwinder, m->code, pc - m->bias) : NULL;
    if (!rule || rule->cfa == PIANO_CFA_NONE)
        return leave_without_rule(c);
    if (rule->ra_at == PIANO_AT_NOWHERE)
        return ENDED;
    if (rule->is_signal && is_signal_frame(c, rule))
        return leave_signal(c);
    return can_leave(c, rule) ? leave_by_rule(c, rule) : leave_by_fp(c);
}

void unwind(struct unwinder *u, struct space *space, const struct unwind_regs *regs,
            const struct unwind_memory *memory, struct unwind_stack *out)
{
    struct cursor c = {.unwinder = u, .space = space, .memory = memory};
    set_regs(&c, regs);
    for (unsigned steps = 0; steps < 2 * PIANO_MAX_FRAMES; steps++) {
        if (out->depth >= PIANO_MAX_FRAMES)
            break;
        out->pcs[out->depth++] = c.pc + c.is_exact;
        bool was_exact = c.is_exact;
        enum outcome outcome = step(&c);
        if (c.is_exact && !was_exact)
            out->pcs[out->depth - 1]++; /* a handler returns to the first byte of its trampoline */
        if (outcome != GOES_ON) {
            out->flags |= c.flags | (outcome == LOST ? PIANO_STACK_LOST : 0);
            return;
        }
    }
    out->flags |= c.flags | PIANO_STACK_FULL;
}
