/* The first instructions of a function are replaced by a jump to a hook. A copy of them, followed
 * by a jump back to the rest, takes the place of the function for the hook.
 *
 * x86.c and arm.c do this for one machine each. If there is any doubt whether the copy does the
 * same, or whether anything else jumps to what is replaced, they refuse. */
#ifndef PIANO_TARGET_ENTRY_CODE_H
#define PIANO_TARGET_ENTRY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PIANO_CODE_JUMP = 8 };

/* A function, and where to put the copy. Both are addresses in this process. */
struct piano__code {
    const uint8_t *function;
    size_t size; /* of the function */
    size_t room; /* until the next function begins: there may be padding in between */
    uint8_t *copy;
    size_t copy_room;
};

struct piano__code_plan {
    size_t at;       /* offset of the first byte that is replaced */
    size_t replaced; /* number of bytes */
    size_t copied;   /* length of the copy */
};

/* For the machine that this is compiled for.
 *
 * Writes the copy, and says what has to be replaced. Returns 0 or a negative errno. */
int piano__code_move(const struct piano__code *code, struct piano__code_plan *plan);
/* Returns 1 if an instruction in SIZE bytes at CODE jumps to an address after LOW and before HIGH;
 * 0 if none does; -EILSEQ if the code cannot be read. */
int piano__code_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high);
/* Writes the replacement, a jump from FROM to TO, into OUT. Returns its length, or 0 if it is too
 * far. */
size_t piano__code_jump(uint8_t out[PIANO_CODE_JUMP], uintptr_t from, uintptr_t to,
                        const struct piano__code_plan *plan);
/* Writes a jump to any address; returns its length. */
enum { PIANO_CODE_FAR = 16 };
size_t piano__code_far_jump(uint8_t out[PIANO_CODE_FAR], uintptr_t to);
/* How far a jump of the replacement reaches. */
extern const int64_t piano__code_reach;
/* Returns whether the processor checks return addresses, so that a call cannot be copied. */
bool piano__code_checks_returns(void);

#endif
