/* The walk.
 *
 * A cursor stands on a function: its pc and what is known of its registers. A step takes it to the caller, by the rule that
 * the module's call frame information has for the pc (rules.c); through the frame of a signal handler, by the registers that the
 * kernel has saved there; or, where code has neither, by the frame pointer, if what that leads to looks like a frame.
 *
 * Why it never faults: on the thread's own stack, only words between its bounds are read, and those stay mapped as long as
 * the thread lives (sys/stack.c). On any other stack (coroutines, alternate signal stacks) the kernel is asked for memory
 * (memory.c). Code and tables are read only inside the segments of loaded modules (module.c).
 *
 * Why it ends: the CFA grows with every step on one stack, only a signal frame may go elsewhere, and steps are counted. */
#include "target/unwind/walk.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "target/unwind/machine.h"
#include "target/unwind/memory.h"
#include "target/unwind/module.h"
#include "target/unwind/rules.h"

enum known { SP = 1, FP = 2, BASE = 4, LR = 8 };

struct cursor {
    uintptr_t pc;
    uintptr_t sp; /* without SP in `known`: not more than it */
    uintptr_t fp, base, lr;
    unsigned known;                 /* enum known */
    bool is_exact;                  /* the pc is that of the next instruction, no return address */
    const struct piano__regs *regs; /* all registers, while is_exact; or NULL */
    unsigned flags;                 /* enum piano__stack_flags */
    struct piano__stack_bounds *stack;
    struct piano__memory memory;
    struct piano__regs interrupted; /* room for what a signal frame has */
};

enum outcome { GOES_ON, ENDED, LOST };

/* SP is on another stack than before, or nothing is known of either. */
static void enter_stack(struct cursor *c)
{
    c->memory.low = c->memory.high = 0;
    if (piano__stack_is_own(c->stack, c->sp)) {
        c->memory.low = c->stack->low;
        c->memory.high = c->stack->high;
    }
}

static void set_regs(struct cursor *c, const struct piano__regs *regs)
{
    c->pc = regs->pc;
    c->sp = regs->general[REGISTER_SP];
    c->fp = regs->general[REGISTER_FP];
    c->base = regs->general[REGISTER_BASE];
    c->lr = HAS_LINK_REGISTER ? regs->general[REGISTER_LR & 31] : 0;
    c->known = SP | FP | BASE | (HAS_LINK_REGISTER ? LR : 0);
    c->is_exact = true;
    c->regs = regs;
    enter_stack(c);
}

static bool get_register(const struct cursor *c, unsigned number, uintptr_t *value)
{
    switch (number) {
    case REGISTER_SP:
        *value = c->sp;
        return c->known & SP;
    case REGISTER_FP:
        *value = c->fp;
        return c->known & FP;
    case REGISTER_BASE:
        *value = c->base;
        return c->known & BASE;
    default:
        *value = c->regs && number < REGISTERS ? c->regs->general[number] : 0;
        return c->regs && number < REGISTERS;
    }
}

/* The caller's value of a register whose own is in VALUE if IS_KNOWN; false when it cannot be had. */
static inline bool get_saved(struct cursor *c, unsigned at, int words, uintptr_t cfa,
                             uintptr_t *value, bool is_known)
{
    uintptr_t from = cfa;
    if (at == PIANO_AT_REGISTER)
        return is_known;
    if (at != PIANO_AT_CFA) {
        bool by_sp = at == PIANO_AT_SP;
        if (at == PIANO_AT_NOWHERE || !(c->known & (by_sp ? SP : FP)))
            return false;
        from = by_sp ? c->sp : c->fp;
    }
    return piano__memory_word(&c->memory, from + (uintptr_t)((intptr_t)words * 8), value);
}

static bool is_code_address(uintptr_t pc)
{
    return pc >= 4096 && pc >> ADDRESS_BITS == 0;
}

/* By the frame pointer --------------------------------------------------------------------------------- */

/* Behind a call in a module. Of code that is in no module only the chain can speak: it must go on. */
static bool is_return_address(struct cursor *c, uintptr_t pc, uintptr_t fp, uintptr_t next_fp)
{
    struct piano__cfi cfi;
    uintptr_t word;
    if (!is_code_address(pc))
        return false;
    if (piano__module_cfi(pc - 1, &cfi))
        return piano__module_has_code(pc, LONGEST_CALL) &&
               piano__machine_is_call((const unsigned char *)pc);
    return next_fp > fp && piano__memory_word(&c->memory, next_fp, &word) &&
           piano__memory_word(&c->memory, next_fp + 8, &word);
}

static enum outcome leave_by_fp(struct cursor *c)
{
    uintptr_t next_fp, pc;
    if (!(c->known & FP) || c->fp < c->sp || !piano__memory_word(&c->memory, c->fp, &next_fp) ||
        !piano__memory_word(&c->memory, c->fp + 8, &pc))
        return LOST;
    if (pc == 0) {
        c->flags |= PIANO_STACK_BY_FP;
        return ENDED;
    }
    pc = piano__machine_strip(pc);
    if (!is_return_address(c, pc, c->fp, next_fp))
        return LOST;
    c->flags |= PIANO_STACK_BY_FP;
    c->pc = pc;
    c->sp = c->fp + 16;
    c->fp = next_fp;
    /* On aarch64 the pair of fp and lr is at the near end of the frame, or anywhere. */
    c->known = HAS_LINK_REGISTER ? FP : FP | SP;
    c->is_exact = false;
    c->regs = NULL;
    return GOES_ON;
}

/* Through a signal frame ------------------------------------------------------------------------------- */

/* Whether the code at PC is the one that the kernel has a signal handler return to. It is in the vdso or libc, or in a page that
 * belongs to no module. */
static bool is_sigreturn(const struct cursor *c)
{
    char code[sizeof PIANO_SIGRETURN - 1];
    if (c->is_exact)
        return false;
    if (piano__module_has_code(c->pc + sizeof code, sizeof code))
        memcpy(code, (const void *)c->pc, sizeof code);
    else if (piano__memory_copy(code, c->pc, sizeof code) != sizeof code)
        return false;
    return memcmp(code, PIANO_SIGRETURN, sizeof code) == 0;
}

static __attribute__((cold, noinline)) enum outcome leave_signal(struct cursor *c)
{
    struct piano__regs *regs = &c->interrupted;
    uintptr_t context = c->sp + SIGNAL_CONTEXT;
    if (!(c->known & SP) ||
        !piano__memory_word(&c->memory, context + piano__machine_saved(REGISTERS), &regs->pc))
        return LOST;
    for (unsigned i = 0; i < REGISTERS; i++) {
        if (!piano__memory_word(&c->memory, context + piano__machine_saved(i), &regs->general[i]))
            return LOST;
    }
    set_regs(c, regs);
    return is_code_address(c->pc) ? GOES_ON : LOST;
}

static bool is_signal_frame(const struct cursor *c, const struct piano__rule *rule)
{
    size_t pc_at = SIGNAL_CONTEXT + piano__machine_saved(REGISTERS);
    return rule->is_signal &&
           ((rule->ra_at == PIANO_AT_SP && (size_t)rule->ra * 8 == pc_at) || is_sigreturn(c));
}

/* By the rules ----------------------------------------------------------------------------------------- */

static bool find_cfa(struct cursor *c, const struct piano__rule *rule, uintptr_t *cfa)
{
    if (!get_register(c, rule->cfa_register, cfa))
        return false;
    *cfa += (uintptr_t)(intptr_t)rule->cfa_offset;
    if (rule->cfa == PIANO_CFA_MEMORY) {
        if (!piano__memory_word(&c->memory, *cfa, cfa))
            return false;
        *cfa += (uintptr_t)(intptr_t)rule->cfa_plus;
    }
    /* A function that has not touched the stack has its caller's, if it has no return address there. */
    bool grows = *cfa > c->sp || (*cfa == c->sp && rule->ra_at == PIANO_AT_REGISTER);
    return grows && *cfa % 8 == 0 && (c->memory.high == 0 || *cfa <= c->memory.high);
}

static enum outcome leave_by_rule(struct cursor *c, const struct piano__rule *rule)
{
    uintptr_t cfa, pc = c->lr, fp = c->fp, base = c->base;
    if (!find_cfa(c, rule, &cfa) || !get_saved(c, rule->ra_at, rule->ra, cfa, &pc, c->known & LR))
        return LOST;
    bool has_fp = get_saved(c, rule->fp_at, rule->fp, cfa, &fp, c->known & FP);
    bool has_base = get_saved(c, rule->base_at, rule->base, cfa, &base, c->known & BASE);
    if (pc == 0)
        return ENDED;
    c->pc = piano__machine_strip(pc);
    c->sp = cfa;
    c->fp = fp;
    c->base = base;
    c->known = SP | (has_fp ? FP : 0) | (has_base ? BASE : 0);
    c->is_exact = rule->is_signal;
    c->regs = NULL;
    if (c->memory.high == 0)
        enter_stack(c);
    return is_code_address(c->pc) ? GOES_ON : LOST;
}

/* Whether the registers that RULE starts from are known: after a step by frame pointer, not all are. */
static bool can_leave(const struct cursor *c, const struct piano__rule *rule)
{
    uintptr_t value;
    return get_register(c, rule->cfa_register, &value) &&
           (rule->ra_at != PIANO_AT_REGISTER || (c->known & LR));
}

/* Where the kernel begins a program: in the loader, else in the program itself. That code need not have a rule that says
 * so; the loader's has none. */
static bool is_first_code(uintptr_t pc)
{
    enum { FIRST_BYTES = 128 };
    const ElfW(Ehdr) *loader = (const ElfW(Ehdr) *)getauxval(AT_BASE);
    return pc - getauxval(AT_ENTRY) < FIRST_BYTES ||
           (loader && pc - (uintptr_t)loader - loader->e_entry < FIRST_BYTES);
}

static __attribute__((cold, noinline)) enum outcome leave_without_rule(struct cursor *c)
{
    if (is_sigreturn(c))
        return leave_signal(c);
    if (is_first_code(c->pc))
        return ENDED;
    /* No call returns to where a function begins: who made this stack has put that address there (makecontext does). */
    if (!c->is_exact && piano__rules_begin(c->pc))
        return ENDED;
    return leave_by_fp(c);
}

static enum outcome step(struct cursor *c)
{
    struct piano__rule room;
    const struct piano__rule *rule = piano__rules_find(c->pc - !c->is_exact, &room);
    if (!rule)
        return leave_without_rule(c);
    if (rule->ra_at == PIANO_AT_NOWHERE)
        return ENDED;
    if (rule->is_signal && is_signal_frame(c, rule))
        return leave_signal(c);
    return can_leave(c, rule) ? leave_by_rule(c, rule) : leave_by_fp(c);
}

/* From the cursor on. Frames between SKIP_START and SKIP_END do not count until the first that is elsewhere. */
static void walk(struct cursor *c, uintptr_t skip_start, uintptr_t skip_end,
                 struct piano__walk *out)
{
    for (unsigned steps = 0; steps < 2 * PIANO_MAX_FRAMES; steps++) {
        bool is_skipped = out->depth == 0 && c->pc - skip_start < skip_end - skip_start;
        if (out->depth == PIANO_MAX_FRAMES)
            break;
        if (!is_skipped)
            out->pcs[out->depth++] = c->pc + c->is_exact;
        bool was_exact = c->is_exact;
        enum outcome outcome = step(c);
        if (!is_skipped && c->is_exact && !was_exact)
            out->pcs[out->depth - 1]++; /* a handler returns to the first byte of its trampoline */
        if (outcome != GOES_ON) {
            out->flags = c->flags | (outcome == LOST ? PIANO_STACK_LOST : 0);
            return;
        }
    }
    out->flags = c->flags | PIANO_STACK_FULL;
}

static void cursor_init(struct cursor *c, struct piano__walker *w)
{
    c->flags = 0;
    c->regs = NULL;
    c->lr = 0;
    c->stack = &w->stack;
    c->memory.block_n = c->memory.block_at = 0;
}

/* Where libpiano.so is; 0 to 0 when this is not in it. Threads that look at the same time find the same. */
static void find_own(uintptr_t *start, uintptr_t *end)
{
    static _Atomic uintptr_t own_start, own_end;
    static _Atomic bool is_found;
    if (!atomic_load_explicit(&is_found, memory_order_acquire)) {
        *start = *end = 0;
        (void)piano__module_own(start, end);
        atomic_store_explicit(&own_start, *start, memory_order_relaxed);
        atomic_store_explicit(&own_end, *end, memory_order_relaxed);
        atomic_store_explicit(&is_found, true, memory_order_release);
    }
    *start = atomic_load_explicit(&own_start, memory_order_relaxed);
    *end = atomic_load_explicit(&own_end, memory_order_relaxed);
}

__attribute__((noinline)) void piano__walk_here(struct piano__walker *w, struct piano__walk *out)
{
    struct cursor c;
    uintptr_t own_start, own_end;
    cursor_init(&c, w);
    PIANO_REGISTERS_HERE(c.pc, c.sp, c.fp, c.base);
    c.known = SP | FP | BASE;
    c.is_exact = true;
    enter_stack(&c);
    find_own(&own_start, &own_end);
    out->depth = 0;
    if (step(&c) == GOES_ON)
        walk(&c, own_start, own_end, out);
    else
        out->flags = PIANO_STACK_LOST;
}

void piano__walk_from(struct piano__walker *w, const struct piano__regs *regs,
                      struct piano__walk *out)
{
    struct cursor c;
    cursor_init(&c, w);
    set_regs(&c, regs);
    out->depth = 0;
    walk(&c, 0, 0, out);
}

void piano__regs_of_signal(struct piano__regs *regs, const void *context)
{
    const char *saved = context;
    memcpy(&regs->pc, saved + piano__machine_saved(REGISTERS), sizeof regs->pc);
    for (unsigned i = 0; i < REGISTERS; i++)
        memcpy(&regs->general[i], saved + piano__machine_saved(i), sizeof regs->general[i]);
}

void piano__walk_forget(void)
{
    piano__rules_forget();
}
