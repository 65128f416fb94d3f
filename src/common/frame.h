/* One step of a stack walk: from a function to its caller, by a rule of the call frame information
 * or by the frame pointer. The program walks its own stack (target/unwind), and the tool walks
 * copies of other processes' stacks (tool/unwind). Rules mean the same for both, but memory is read
 * differently. So the step takes a function that reads a word. It is a compile-time constant at
 * each call site, so the compiler inlines it. */
#ifndef PIANO_COMMON_FRAME_H
#define PIANO_COMMON_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"
#include "common/machine.h"

#define PIANO_ALWAYS_INLINE static inline __attribute__((always_inline))

enum piano__frame_known {
    PIANO_KNOWS_SP = 1,
    PIANO_KNOWS_FP = 2,
    PIANO_KNOWS_BASE = 4,
    PIANO_KNOWS_LR = 8
};

/* An active function: its pc, and the registers that are known. */
struct piano__frame {
    uint64_t pc;
    uint64_t sp; /* a lower bound if SP is not in `known` */
    uint64_t fp, base, lr;
    unsigned known;          /* enum piano__frame_known */
    bool is_exact;           /* the pc is the next instruction, not a return address */
    const uint64_t *general; /* all registers by DWARF number, while is_exact; may be NULL */
};

enum piano__outcome { PIANO_GOES_ON, PIANO_ENDED, PIANO_LOST };

/* Reads the word at AT. Returns false if AT is not readable. */
typedef bool piano__word_fn(void *memory, uint64_t at, uint64_t *value);

static inline bool piano__is_code_address(uint64_t pc)
{
    return pc >= 4096 && pc >> PIANO_ADDRESS_BITS == 0;
}

/* GENERAL must stay valid while the frame is exact. */
static inline void piano__frame_begin(struct piano__frame *f, uint64_t pc, const uint64_t *general)
{
    f->pc = pc;
    f->sp = general[PIANO_REGISTER_SP];
    f->fp = general[PIANO_REGISTER_FP];
    f->base = general[PIANO_REGISTER_BASE];
    f->lr = PIANO_HAS_LINK_REGISTER ? general[PIANO_REGISTER_LR & 31] : 0;
    f->known = PIANO_KNOWS_SP | PIANO_KNOWS_FP | PIANO_KNOWS_BASE |
               (PIANO_HAS_LINK_REGISTER ? PIANO_KNOWS_LR : 0);
    f->is_exact = true;
    f->general = general;
}

static inline bool piano__frame_register(const struct piano__frame *f, unsigned number,
                                         uint64_t *value)
{
    switch (number) {
    case PIANO_REGISTER_SP:
        *value = f->sp;
        return f->known & PIANO_KNOWS_SP;
    case PIANO_REGISTER_FP:
        *value = f->fp;
        return f->known & PIANO_KNOWS_FP;
    case PIANO_REGISTER_BASE:
        *value = f->base;
        return f->known & PIANO_KNOWS_BASE;
    default:
        *value = f->general && number < PIANO_REGISTERS ? f->general[number] : 0;
        return f->general && number < PIANO_REGISTERS;
    }
}

/* Returns whether the registers that RULE starts from are known. After a step by frame pointer,
 * some are not. */
static inline bool piano__frame_can_leave(const struct piano__frame *f,
                                          const struct piano__rule *rule)
{
    uint64_t value;
    return piano__frame_register(f, rule->cfa_register, &value) &&
           (rule->ra_at != PIANO_AT_REGISTER || (f->known & PIANO_KNOWS_LR));
}

/* Finds the caller's value of a register. VALUE holds the current value, which is valid if
 * IS_KNOWN. Returns false if the caller's value is not available. */
PIANO_ALWAYS_INLINE bool piano__frame_saved(const struct piano__frame *f, unsigned at, int words,
                                            uint64_t cfa, uint64_t *value, bool is_known,
                                            piano__word_fn *word, void *memory)
{
    uint64_t from = cfa;
    if (at == PIANO_AT_REGISTER)
        return is_known;
    if (at != PIANO_AT_CFA) {
        bool by_sp = at == PIANO_AT_SP;
        if (at == PIANO_AT_NOWHERE || !(f->known & (by_sp ? PIANO_KNOWS_SP : PIANO_KNOWS_FP)))
            return false;
        from = by_sp ? f->sp : f->fp;
    }
    return word(memory, from + (uint64_t)((int64_t)words * 8), value);
}

PIANO_ALWAYS_INLINE bool piano__frame_cfa(const struct piano__frame *f,
                                          const struct piano__rule *rule, uint64_t *cfa,
                                          piano__word_fn *word, void *memory)
{
    if (!piano__frame_register(f, rule->cfa_register, cfa))
        return false;
    *cfa += (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == PIANO_CFA_MEMORY) {
        if (!word(memory, *cfa, cfa))
            return false;
        *cfa += (uint64_t)(int64_t)rule->cfa_plus;
    }
    /* A function that has not moved the stack pointer has its caller's CFA. Then its return address
     * must be in a register. */
    bool grows = *cfa > f->sp || (*cfa == f->sp && rule->ra_at == PIANO_AT_REGISTER);
    return grows && *cfa % 8 == 0;
}

/* Steps to the caller by RULE, not above HIGHEST. The new pc is not checked: it may be signed, or
 * not be a code address. */
PIANO_ALWAYS_INLINE enum piano__outcome piano__frame_leave(struct piano__frame *f,
                                                           const struct piano__rule *rule,
                                                           uint64_t highest, piano__word_fn *word,
                                                           void *memory)
{
    uint64_t cfa, pc = f->lr, fp = f->fp, base = f->base;
    if (!piano__frame_cfa(f, rule, &cfa, word, memory) || cfa > highest ||
        !piano__frame_saved(f, rule->ra_at, rule->ra, cfa, &pc, f->known & PIANO_KNOWS_LR, word,
                            memory))
        return PIANO_LOST;
    bool has_fp = piano__frame_saved(f, rule->fp_at, rule->fp, cfa, &fp, f->known & PIANO_KNOWS_FP,
                                     word, memory);
    bool has_base = piano__frame_saved(f, rule->base_at, rule->base, cfa, &base,
                                       f->known & PIANO_KNOWS_BASE, word, memory);
    if (pc == 0)
        return PIANO_ENDED;
    f->pc = pc;
    f->sp = cfa;
    f->fp = fp;
    f->base = base;
    f->known = PIANO_KNOWS_SP | (has_fp ? PIANO_KNOWS_FP : 0) | (has_base ? PIANO_KNOWS_BASE : 0);
    f->is_exact = rule->is_signal;
    f->general = NULL;
    return PIANO_GOES_ON;
}

/* Reads the pair that the frame pointer points to: the caller's frame pointer and the return
 * address next to it. */
PIANO_ALWAYS_INLINE bool piano__frame_pair(const struct piano__frame *f, uint64_t *next_fp,
                                           uint64_t *pc, piano__word_fn *word, void *memory)
{
    return f->known & PIANO_KNOWS_FP && f->fp >= f->sp && word(memory, f->fp, next_fp) &&
           word(memory, f->fp + 8, pc);
}

/* Steps to the caller by the pair from piano__frame_pair(). */
static inline void piano__frame_leave_by_fp(struct piano__frame *f, uint64_t next_fp, uint64_t pc)
{
    f->pc = pc;
    f->sp = f->fp + 16;
    f->fp = next_fp;
    /* On aarch64, the pair of fp and lr may be anywhere in the frame, so its place does not give
     * the sp. */
    f->known = PIANO_HAS_LINK_REGISTER ? PIANO_KNOWS_FP : PIANO_KNOWS_FP | PIANO_KNOWS_SP;
    f->is_exact = false;
    f->general = NULL;
}

/* Steps to the caller of a function that has not pushed anything, on a machine without a link
 * register: PC is on top of the stack. */
static inline void piano__frame_leave_leaf(struct piano__frame *f, uint64_t pc)
{
    f->pc = pc;
    f->sp += 8;
    f->is_exact = false;
    f->general = NULL;
}

/* Returns whether RULE reads the return address from where the kernel saved the pc of interrupted
 * code. */
static inline bool piano__frame_is_interrupted(const struct piano__rule *rule)
{
    size_t pc_at = PIANO_SIGNAL_CONTEXT + piano__machine_saved(PIANO_REGISTERS);
    return rule->ra_at == PIANO_AT_SP && (size_t)rule->ra * 8 == pc_at;
}

/* Reads the registers that the kernel saved in the frame of a signal handler, PIANO_REGISTERS of
 * them. */
PIANO_ALWAYS_INLINE bool piano__frame_interrupted(const struct piano__frame *f, uint64_t *pc,
                                                  uint64_t *general, piano__word_fn *word,
                                                  void *memory)
{
    uint64_t context = f->sp + PIANO_SIGNAL_CONTEXT;
    if (!(f->known & PIANO_KNOWS_SP) ||
        !word(memory, context + piano__machine_saved(PIANO_REGISTERS), pc))
        return false;
    for (unsigned i = 0; i < PIANO_REGISTERS; i++) {
        if (!word(memory, context + piano__machine_saved(i), &general[i]))
            return false;
    }
    return true;
}

#endif
