/* Walks a copied stack.
 *
 * A cursor stands on a function: its pc and the known registers. A step moves it to the caller in
 * one of three ways. It uses the rule that the file's call frame information has for the pc.
 * Through the frame of a signal handler, it uses the registers that the kernel saved there. For
 * code with neither, it uses the frame pointer, if that leads to something that looks like a frame.
 * Only the copied bytes are read. A stack that is longer ends as lost, and so does one that
 * continues elsewhere (coroutines, alternate signal stacks).
 *
 * The walk terminates because the CFA grows with every step, except through a signal frame, and
 * because the steps are counted.
 *
 * Rules are cached by file and by address in the file, so that all processes that map the file
 * share them. */
#include "tool/unwind/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/frame.h"

enum { RULES = 1 << 14 };

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
    struct piano__frame at;
    bool is_outermost;              /* there is nothing beyond this frame */
    unsigned flags;                 /* enum piano__stack_flags */
    struct unwind_regs interrupted; /* buffer for the registers in a signal frame */
};

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

static bool read_word(void *memory, uint64_t at, uint64_t *value)
{
    const struct cursor *c = memory;
    const struct unwind_memory *m = c->memory;
    if (at % 8 != 0 || m->size < 8 || at < m->start || at - m->start > m->size - 8)
        return false;
    memcpy(value, m->bytes + (at - m->start), sizeof *value);
    return true;
}

/* By the frame pointer ------------------------------------------------------------------------- */

/* Reads the code before PC. Returns false if it is not available: M is none, or has no file. */
static bool read_code(const struct mapping *m, uint64_t pc, unsigned char code[PIANO_LONGEST_CALL])
{
    return m && m->code &&
           code_bytes(m->code, pc - m->bias - PIANO_LONGEST_CALL, code, PIANO_LONGEST_CALL);
}

/* Is PC preceded by a call instruction? If its code cannot be read, the chain of frame pointers
 * must continue instead. */
static bool is_return_address(struct cursor *c, uint64_t pc, uint64_t next_fp)
{
    unsigned char code[PIANO_LONGEST_CALL];
    uint64_t word;
    if (!piano__is_code_address(pc))
        return false;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, pc - 1);
    if (read_code(m, pc, code))
        return piano__machine_is_call(code + sizeof code);
    return m && next_fp > c->at.fp && read_word(c, next_fp, &word) &&
           read_word(c, next_fp + 8, &word);
}

/* A runtime that makes stacks itself lets the first function return to code that no call precedes
 * (Go: runtime.goexit), and clears the frame pointer: this frame is the outermost one. */
static bool is_outermost(struct cursor *c, uint64_t pc, uint64_t next_fp)
{
    unsigned char code[PIANO_LONGEST_CALL];
    return next_fp == 0 && piano__is_code_address(pc) &&
           read_code(space_find(c->space, &c->unwinder->codes, pc - 1), pc, code);
}

static enum piano__outcome leave_by_fp(struct cursor *c)
{
    uint64_t next_fp;
    uint64_t pc;
    if (!piano__frame_pair(&c->at, &next_fp, &pc, read_word, c))
        return PIANO_LOST;
    if (pc == 0) {
        c->flags |= PIANO_STACK_BY_FP;
        return PIANO_ENDED;
    }
    pc = unwind_strip(pc);
    if (!is_return_address(c, pc, next_fp)) {
        c->is_outermost = is_outermost(c, pc, next_fp);
        if (!c->is_outermost)
            return PIANO_LOST;
    }
    c->flags |= PIANO_STACK_BY_FP;
    piano__frame_leave_by_fp(&c->at, next_fp, pc);
    return PIANO_GOES_ON;
}

/* Code without tables is often a leaf function without a frame, and its caller would be left out.
 * Then the return address is on top of the stack. It must follow a call in a file: of JIT code
 * nothing more can be checked; in a file, the call must go to the function. */
static bool leave_leaf(struct cursor *c, const struct mapping *m)
{
    unsigned char code[PIANO_LONGEST_CALL];
    uint64_t pc;
    if (PIANO_HAS_LINK_REGISTER || !c->at.is_exact || !m || !read_word(c, c->at.sp, &pc) ||
        !piano__is_code_address(pc) ||
        !read_code(space_find(c->space, &c->unwinder->codes, pc - 1), pc, code) ||
        !(m->code ? piano__machine_calls(code + sizeof code, pc, c->at.pc)
                  : piano__machine_is_call(code + sizeof code)))
        return false;
    piano__frame_leave_leaf(&c->at, pc);
    return true;
}

/* CPython's trampolines (-X perf) align the stack, call, and return. They leave the frame pointer
 * alone, which is that of a function with a frame only if Python was built so. Otherwise the return
 * address is behind the eight bytes that align the stack. It must follow a call in a file. */
static bool leave_trampoline(struct cursor *c, const struct mapping *m)
{
    enum { ALIGNED = 16, PADDING = 8 };
    unsigned char code[PIANO_LONGEST_CALL];
    uint64_t pc;
    if (PIANO_HAS_LINK_REGISTER || c->at.is_exact || !m || m->code || c->at.sp % ALIGNED != 0 ||
        !read_word(c, c->at.sp + PADDING, &pc) || !piano__is_code_address(pc) ||
        !read_code(space_find(c->space, &c->unwinder->codes, pc - 1), pc, code) ||
        !piano__machine_is_call(code + sizeof code))
        return false;
    c->at.sp += PADDING;
    piano__frame_leave_leaf(&c->at, pc);
    return true;
}

/* Through a signal frame ----------------------------------------------------------------------- */

static bool is_sigreturn(const struct cursor *c)
{
    char code[sizeof PIANO_SIGRETURN - 1];
    if (c->at.is_exact)
        return false;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, c->at.pc);
    return m && m->code && code_bytes(m->code, c->at.pc - m->bias, code, sizeof code) &&
           memcmp(code, PIANO_SIGRETURN, sizeof code) == 0;
}

static enum piano__outcome leave_signal(struct cursor *c)
{
    struct unwind_regs *regs = &c->interrupted;
    if (!piano__frame_interrupted(&c->at, &regs->pc, regs->general, read_word, c))
        return PIANO_LOST;
    piano__frame_begin(&c->at, regs->pc, regs->general);
    return piano__is_code_address(c->at.pc) ? PIANO_GOES_ON : PIANO_LOST;
}

/* By the rules --------------------------------------------------------------------------------- */

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

static enum piano__outcome leave_by_rule(struct cursor *c, const struct piano__rule *rule)
{
    enum piano__outcome outcome = piano__frame_leave(&c->at, rule, UINT64_MAX, read_word, c);
    if (outcome != PIANO_GOES_ON)
        return outcome;
    c->at.pc = unwind_strip(c->at.pc);
    return piano__is_code_address(c->at.pc) ? PIANO_GOES_ON : PIANO_LOST;
}

/* Code at which the kernel starts a program or its loader. It need not have a rule that marks the
 * end of the stack. */
static bool is_first_code(const struct mapping *m, uint64_t pc)
{
    enum { FIRST_BYTES = 128 };
    return m && m->code && m->code->is_good && m->code->entry > 0 &&
           pc - m->bias - m->code->entry < FIRST_BYTES;
}

/* No call returns to the start of a function. So the code that created this stack (such as
 * makecontext) put that address there. */
static bool begins_function(const struct mapping *m, uint64_t pc)
{
    struct piano__cfi_row row;
    if (!m || !m->code || m->code->cfi.size == 0)
        return false;
    uint64_t address = pc - m->bias;
    return piano__cfi_find(&m->code->cfi, address - 1, &row) == -ENOENT &&
           piano__cfi_find(&m->code->cfi, address, &row) == 0 && row.start == address;
}

static enum piano__outcome leave_without_rule(struct cursor *c)
{
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, c->at.pc);
    if (is_sigreturn(c))
        return leave_signal(c);
    if (is_first_code(m, c->at.pc) || (!c->at.is_exact && begins_function(m, c->at.pc)))
        return PIANO_ENDED;
    if (leave_leaf(c, m))
        return PIANO_GOES_ON;
    enum piano__outcome outcome = leave_by_fp(c);
    return outcome == PIANO_LOST && leave_trampoline(c, m) ? PIANO_GOES_ON : outcome;
}

static enum piano__outcome step(struct cursor *c)
{
    if (c->is_outermost)
        return PIANO_ENDED;
    uint64_t pc = c->at.pc - !c->at.is_exact;
    const struct mapping *m = space_find(c->space, &c->unwinder->codes, pc);
    const struct piano__rule *rule =
        m && m->code ? find_rule(c->unwinder, m->code, pc - m->bias) : NULL;
    if (!rule || rule->cfa == PIANO_CFA_NONE)
        return leave_without_rule(c);
    if (rule->ra_at == PIANO_AT_NOWHERE)
        return PIANO_ENDED;
    if (rule->is_signal && (piano__frame_is_interrupted(rule) || is_sigreturn(c)))
        return leave_signal(c);
    return piano__frame_can_leave(&c->at, rule) ? leave_by_rule(c, rule) : leave_by_fp(c);
}

void unwind(struct unwinder *u, struct space *space, const struct unwind_regs *regs,
            const struct unwind_memory *memory, struct unwind_stack *out)
{
    struct cursor c = {.unwinder = u, .space = space, .memory = memory};
    piano__frame_begin(&c.at, regs->pc, regs->general);
    for (unsigned steps = 0; steps < 2 * PIANO_MAX_FRAMES; steps++) {
        if (out->depth >= PIANO_MAX_FRAMES)
            break;
        out->pcs[out->depth++] = c.at.pc + c.at.is_exact;
        bool was_exact = c.at.is_exact;
        enum piano__outcome outcome = step(&c);
        if (c.at.is_exact && !was_exact)
            out->pcs[out->depth - 1]++; /* a handler returns to the first byte of the trampoline */
        if (outcome != PIANO_GOES_ON) {
            out->flags |= c.flags | (outcome == PIANO_LOST ? PIANO_STACK_LOST : 0);
            return;
        }
    }
    out->flags |= c.flags | PIANO_STACK_FULL;
}
