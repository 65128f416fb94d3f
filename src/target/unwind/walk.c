/* Walks a stack.
 *
 * A cursor describes a function: its pc and the registers that are known. A step moves it to the
 * caller. It uses the rule that the module's call frame information has for the pc (rules.c). For
 * the frame of a signal handler, it uses the registers that the kernel saved there. Without either,
 * it uses the frame pointer, if that leads to something that looks like a frame.
 *
 * Why it never faults: on the thread's own stack, only words between its bounds are read, and those
 * stay mapped while the thread lives (sys/stack.c). On any other stack (coroutines, alternate
 * signal stacks) the kernel copies the memory (memory.c). Code and tables are read only inside the
 * segments of loaded modules (module.c).
 *
 * Why it ends: the CFA increases with every step on one stack, only a signal frame may switch
 * stacks, and the number of steps is limited. */
#include "target/unwind/walk.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "common/frame.h"
#include "target/unwind/machine.h"
#include "target/unwind/memory.h"
#include "target/unwind/module.h"
#include "target/unwind/rules.h"

struct cursor {
    struct piano__frame at;
    bool is_outermost; /* there is nothing beyond this frame */
    unsigned flags;    /* enum piano__stack_flags */
    struct piano__stack_bounds *stack;
    struct piano__memory memory;
    struct piano__regs interrupted; /* for the registers of a signal frame */
};

static inline bool read_word(void *memory, uint64_t at, uint64_t *value)
{
    return piano__memory_word(memory, at, value);
}

/* Sets the memory window: SP is on another stack than before, or neither stack is known. */
static void enter_stack(struct cursor *c)
{
    c->memory.low = c->memory.high = 0;
    if (piano__stack_is_own(c->stack, c->at.sp)) {
        c->memory.low = c->stack->low;
        c->memory.high = c->stack->high;
    }
}

static void set_regs(struct cursor *c, const struct piano__regs *regs)
{
    piano__frame_begin(&c->at, regs->pc, regs->general);
    enter_stack(c);
}

/* Steps by frame pointer ---------------------------------------------------------------------- */

/* Returns whether PC follows a call in a module. */
static bool follows_call(uintptr_t pc)
{
    return piano__module_has_code(pc, PIANO_LONGEST_CALL) &&
           piano__machine_is_call((const unsigned char *)pc);
}

/* Returns whether PC follows a call in a module. For code outside of modules, only the chain of
 * frame pointers can be checked: it must continue. */
static bool is_return_address(struct cursor *c, uintptr_t pc, uintptr_t fp, uintptr_t next_fp)
{
    struct piano__cfi cfi;
    uintptr_t word;
    if (!piano__is_code_address(pc))
        return false;
    if (piano__module_cfi(pc - 1, &cfi))
        return follows_call(pc);
    return next_fp > fp && piano__memory_word(&c->memory, next_fp, &word) &&
           piano__memory_word(&c->memory, next_fp + 8, &word);
}

/* Code without tables is often a leaf function without a frame, and its caller would be left out.
 * Then the return address is on top of the stack. It must follow a call in a module: of JIT code
 * nothing more can be checked; in a module, the call must go to the function. */
static bool leave_leaf(struct cursor *c)
{
    struct piano__cfi cfi;
    uint64_t pc;
    if (PIANO_HAS_LINK_REGISTER || !c->at.is_exact ||
        !piano__memory_word(&c->memory, c->at.sp, &pc) || !piano__is_code_address(pc) ||
        !follows_call(pc) ||
        (piano__module_cfi(c->at.pc, &cfi) &&
         !piano__machine_calls((const unsigned char *)pc, pc, c->at.pc)))
        return false;
    piano__frame_leave_leaf(&c->at, pc);
    return true;
}

static enum piano__outcome leave_by_fp(struct cursor *c)
{
    uint64_t next_fp, pc;
    if (!piano__frame_pair(&c->at, &next_fp, &pc, read_word, &c->memory))
        return PIANO_LOST;
    if (pc == 0) {
        c->flags |= PIANO_STACK_BY_FP;
        return PIANO_ENDED;
    }
    pc = piano__machine_strip(pc);
    if (!is_return_address(c, pc, c->at.fp, next_fp)) {
        /* A runtime that makes stacks itself lets the first function return to code that no call
         * precedes (Go: runtime.goexit), and clears the frame pointer. */
        c->is_outermost = next_fp == 0 && piano__is_code_address(pc) &&
                          piano__module_has_code(pc, PIANO_LONGEST_CALL);
        if (!c->is_outermost)
            return PIANO_LOST;
    }
    c->flags |= PIANO_STACK_BY_FP;
    piano__frame_leave_by_fp(&c->at, next_fp, pc);
    return PIANO_GOES_ON;
}

/* Steps through a signal frame ---------------------------------------------------------------- */

/* Returns whether the code at PC is where the kernel makes a signal handler return to. It is in the
 * vdso or libc, or in a page outside of modules. */
static bool is_sigreturn(const struct cursor *c)
{
    char code[sizeof PIANO_SIGRETURN - 1];
    if (c->at.is_exact)
        return false;
    if (piano__module_has_code(c->at.pc + sizeof code, sizeof code))
        memcpy(code, (const void *)c->at.pc, sizeof code);
    else if (piano__memory_copy(code, c->at.pc, sizeof code) != sizeof code)
        return false;
    return memcmp(code, PIANO_SIGRETURN, sizeof code) == 0;
}

static __attribute__((cold, noinline)) enum piano__outcome leave_signal(struct cursor *c)
{
    struct piano__regs *regs = &c->interrupted;
    if (!piano__frame_interrupted(&c->at, &regs->pc, regs->general, read_word, &c->memory))
        return PIANO_LOST;
    set_regs(c, regs);
    return piano__is_code_address(c->at.pc) ? PIANO_GOES_ON : PIANO_LOST;
}

/* Steps by rule ------------------------------------------------------------------------------- */

static enum piano__outcome leave_by_rule(struct cursor *c, const struct piano__rule *rule)
{
    uint64_t highest = c->memory.high ? c->memory.high : UINT64_MAX;
    enum piano__outcome outcome = piano__frame_leave(&c->at, rule, highest, read_word, &c->memory);
    if (outcome != PIANO_GOES_ON)
        return outcome;
    c->at.pc = piano__machine_strip(c->at.pc);
    if (c->memory.high == 0)
        enter_stack(c);
    return piano__is_code_address(c->at.pc) ? PIANO_GOES_ON : PIANO_LOST;
}

/* Returns whether PC is where the kernel starts a program: in the loader, else in the program. That
 * code may lack a rule that marks the end of the stack; the loader's does. */
static bool is_first_code(uintptr_t pc)
{
    enum { FIRST_BYTES = 128 };
    const ElfW(Ehdr) *loader = (const ElfW(Ehdr) *)getauxval(AT_BASE);
    return pc - getauxval(AT_ENTRY) < FIRST_BYTES ||
           (loader && pc - (uintptr_t)loader - loader->e_entry < FIRST_BYTES);
}

static __attribute__((cold, noinline)) enum piano__outcome leave_without_rule(struct cursor *c)
{
    if (is_sigreturn(c))
        return leave_signal(c);
    if (is_first_code(c->at.pc))
        return PIANO_ENDED;
    /* No call returns to the start of a function. The creator of this stack stored that address
     * there (makecontext does). */
    if (!c->at.is_exact && piano__rules_begin(c->at.pc))
        return PIANO_ENDED;
    return leave_leaf(c) ? PIANO_GOES_ON : leave_by_fp(c);
}

static enum piano__outcome step(struct cursor *c)
{
    struct piano__rule room;
    if (c->is_outermost)
        return PIANO_ENDED;
    const struct piano__rule *rule = piano__rules_find(c->at.pc - !c->at.is_exact, &room);
    if (!rule)
        return leave_without_rule(c);
    if (rule->ra_at == PIANO_AT_NOWHERE)
        return PIANO_ENDED;
    if (rule->is_signal && (piano__frame_is_interrupted(rule) || is_sigreturn(c)))
        return leave_signal(c);
    return piano__frame_can_leave(&c->at, rule) ? leave_by_rule(c, rule) : leave_by_fp(c);
}

/* Walks from the cursor on. Frames between SKIP_START and SKIP_END are left out, up to the first
 * frame elsewhere. */
static void walk(struct cursor *c, uintptr_t skip_start, uintptr_t skip_end,
                 struct piano__walk *out)
{
    for (unsigned steps = 0; steps < 2 * PIANO_MAX_FRAMES; steps++) {
        bool is_skipped = out->depth == 0 && c->at.pc - skip_start < skip_end - skip_start;
        if (out->depth == PIANO_MAX_FRAMES)
            break;
        if (!is_skipped) {
            out->sps[out->depth] = c->at.sp;
            out->pcs[out->depth++] = c->at.pc + c->at.is_exact;
        }
        bool was_exact = c->at.is_exact;
        enum piano__outcome outcome = step(c);
        out->sps[out->depth] = c->at.sp;
        out->is_interrupted |= c->at.is_exact && !was_exact;
        /* A handler returns to the first byte of its trampoline, so the pc is not after a call. */
        if (!is_skipped && c->at.is_exact && !was_exact)
            out->pcs[out->depth - 1]++;
        if (outcome != PIANO_GOES_ON) {
            out->flags = c->flags | (outcome == PIANO_LOST ? PIANO_STACK_LOST : 0);
            return;
        }
    }
    out->flags = c->flags | PIANO_STACK_FULL;
}

static void cursor_init(struct cursor *c, struct piano__walker *w)
{
    c->flags = 0;
    c->is_outermost = false;
    c->at.general = NULL;
    c->at.lr = 0;
    c->stack = &w->stack;
    c->memory.block_n = c->memory.block_at = 0;
}

/* Finds the range of libpiano.so, or 0 to 0 if this code is not in it. Concurrent callers find the
 * same values. */
static void find_own(uintptr_t *start, uintptr_t *end)
{
    static uintptr_t own_start, own_end;
    static bool is_found;
    /* Pairs with the release below: `own_start` and `own_end` are set. */
    if (!__atomic_load_n(&is_found, __ATOMIC_ACQUIRE)) {
        *start = *end = 0;
        (void)piano__module_own(start, end);
        __atomic_store_n(&own_start, *start, __ATOMIC_RELAXED);
        __atomic_store_n(&own_end, *end, __ATOMIC_RELAXED);
        __atomic_store_n(&is_found, true, __ATOMIC_RELEASE);
    }
    *start = __atomic_load_n(&own_start, __ATOMIC_RELAXED);
    *end = __atomic_load_n(&own_end, __ATOMIC_RELAXED);
}

__attribute__((noinline)) void piano__walk_here(struct piano__walker *w, struct piano__walk *out)
{
    struct cursor c;
    uintptr_t own_start, own_end;
    cursor_init(&c, w);
    PIANO_REGISTERS_HERE(c.at.pc, c.at.sp, c.at.fp, c.at.base);
    c.at.known = PIANO_KNOWS_SP | PIANO_KNOWS_FP | PIANO_KNOWS_BASE;
    c.at.is_exact = true;
    enter_stack(&c);
    find_own(&own_start, &own_end);
    out->depth = 0;
    out->is_interrupted = false;
    if (step(&c) == PIANO_GOES_ON)
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
    out->is_interrupted = false;
    walk(&c, 0, 0, out);
}

void piano__regs_of_signal(struct piano__regs *regs, const void *context)
{
    const char *saved = context;
    memcpy(&regs->pc, saved + piano__machine_saved(PIANO_REGISTERS), sizeof regs->pc);
    for (unsigned i = 0; i < PIANO_REGISTERS; i++)
        memcpy(&regs->general[i], saved + piano__machine_saved(i), sizeof regs->general[i]);
}

void piano__walk_forget(void)
{
    piano__module_unloaded();
    piano__rules_forget();
}
