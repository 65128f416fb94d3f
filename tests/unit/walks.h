/* Helpers of the tests of unwinding: libgcc's unwinder to compare with, and functions that the compiler keeps. */
#ifndef TESTS_UNIT_WALKS_H
#define TESTS_UNIT_WALKS_H

#include <unwind.h>

#include "target/unwind/walk.h"

/* Not inlined or cloned, so that each call is a frame. */
#define FRAME __attribute__((noinline, noclone))

enum { OTHER_ROOM = 512 };

/* In terms of struct piano__walk, the call is at pc-1. */
struct other_walk {
    unsigned depth;
    uintptr_t pcs[OTHER_ROOM];
};

static inline _Unwind_Reason_Code other_frame(struct _Unwind_Context *context, void *arg)
{
    struct other_walk *out = arg;
    int is_exact = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &is_exact);
    if (pc == 0 || out->depth == OTHER_ROOM)
        return _URC_END_OF_STACK;
    if (is_exact && out->depth > 0)
        out->pcs[out->depth - 1]++; /* the trampoline: a handler returns to its first byte */
    out->pcs[out->depth++] = pc + (is_exact ? 1 : 0);
    return _URC_NO_REASON;
}

static inline __attribute__((always_inline)) void other_walk(struct other_walk *out)
{
    out->depth = 0;
    _Unwind_Backtrace(other_frame, out);
}

/* From the frames OURS and THEIRS on, the walks are equal; ours may be truncated. */
static inline void expect_same(const struct piano__walk *a, unsigned ours,
                               const struct other_walk *b, unsigned theirs)
{
    unsigned rest = b->depth - theirs;
    bool is_cut = a->flags & PIANO_STACK_FULL;
    bool is_same = is_cut ? rest > a->depth - ours : rest == a->depth - ours;
    for (unsigned i = 0; is_same && i + ours < a->depth; i++)
        is_same = a->pcs[ours + i] == b->pcs[theirs + i];
    if (!is_same) {
        for (unsigned i = 0; i + ours < a->depth || i + theirs < b->depth; i++)
            print_message("%2u %#lx %#lx\n", i,
                          i + ours < a->depth ? (unsigned long)a->pcs[i + ours] : 0,
                          i + theirs < b->depth ? (unsigned long)b->pcs[i + theirs] : 0);
    }
    assert_true(is_same);
}

/* OURS is the outer part of THEIRS. */
static inline void expect_tail(const struct piano__walk *ours, const struct other_walk *theirs)
{
    assert_true(theirs->depth >= ours->depth);
    expect_same(ours, 0, theirs, theirs->depth - ours->depth);
}

/* A walk from a function without arguments, for code that calls one. */
struct taken {
    struct piano__walker *walker;
    struct piano__walk walk;
};
static struct taken *taken_into;

static FRAME __attribute__((unused)) void take_walk(void)
{
    piano__walk_here(taken_into->walker, &taken_into->walk);
    __asm__ volatile(""); /* the call is not the last statement, because it would become a jump */
}

static inline void take_into(struct taken *taken)
{
    taken_into = taken;
    take_walk();
}

/* Reads other functions' frames, which ASan must not check. */
static FRAME __attribute__((no_sanitize_address, unused)) void
copy_raw(uintptr_t *to, const uintptr_t *from, unsigned words)
{
    for (unsigned i = 0; i < words; i++)
        ((volatile uintptr_t *)to)[i] = from[i];
}

static FRAME __attribute__((no_sanitize_address, unused)) void poke_raw(uintptr_t *at,
                                                                        uintptr_t value)
{
    *(volatile uintptr_t *)at = value;
}

#endif
