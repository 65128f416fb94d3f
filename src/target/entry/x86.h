/* Reads instructions of x86-64 and copies the first ones of a function to another place. */
#ifndef PIANO_TARGET_ENTRY_X86_H
#define PIANO_TARGET_ENTRY_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/entry/code.h"

enum piano__x86_flow {
    PIANO_X86_NEXT, /* the next instruction follows */
    PIANO_X86_JUMP, /* to `target` */
    PIANO_X86_JUMP_IF,
    PIANO_X86_CALL,  /* of `target` */
    PIANO_X86_STOP,  /* returns, or jumps to a computed address */
    PIANO_X86_OTHER, /* cannot be copied: a loop has no long form, or the call is computed */
};

struct piano__x86_insn {
    size_t length;
    size_t opcode;   /* offset of the last opcode byte */
    size_t relative; /* offset of four bytes that are relative to the next instruction; or 0 */
    enum piano__x86_flow flow;
    int64_t target; /* relative to the start of the instruction; 0 if it has none */
};

/* Reads the instruction at CODE, of which ROOM bytes are there. Returns false if it is not known. */
bool piano__x86_read(const uint8_t *code, size_t room, struct piano__x86_insn *insn);

int piano__x86_move(const struct piano__code *code, struct piano__code_plan *plan);
int piano__x86_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high);

#endif
