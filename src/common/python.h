/* Functions of CPython in a recording. A frame of a stack that is one of them has, in place of an address, the number of its code
 * object and of the instruction: bits no address of a program or of the kernel has. */
#ifndef PIANO_COMMON_PYTHON_H
#define PIANO_COMMON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PIANO_PYTHON_MARK = 0x5059, PIANO_PYTHON_MOST = (1 << 24) - 1 };

static inline uint64_t piano__python_pc(uint32_t code, uint32_t instruction)
{
    return (uint64_t)PIANO_PYTHON_MARK << 48 | (uint64_t)(code & PIANO_PYTHON_MOST) << 24 |
           (instruction < PIANO_PYTHON_MOST ? instruction : PIANO_PYTHON_MOST);
}

static inline bool piano__python_is(uint64_t pc)
{
    return pc >> 48 == PIANO_PYTHON_MARK;
}

/* 0: a function whose name could not be had. */
static inline uint32_t piano__python_code_of(uint64_t pc)
{
    return (uint32_t)(pc >> 24) & PIANO_PYTHON_MOST;
}

static inline uint32_t piano__python_instruction_of(uint64_t pc)
{
    return (uint32_t)pc & PIANO_PYTHON_MOST;
}

/* The line of INSTRUCTION (code units of two bytes from 0) by TABLE, a co_linetable of 3.11 or later, which may be anything;
 * 0: it has none. */
unsigned piano__python_line(uint32_t first_line, const uint8_t *table, size_t len,
                            uint32_t instruction);

/* LEN bytes of characters as a str holds them, WIDTH (1, 2 or 4) bytes each, as UTF-8 into TO of SIZE, which is ended by a NUL and
 * cut where it is too small. Bytes of file names that are no text come out as they were. Returns its length. */
size_t piano__python_text(const void *chars, size_t len, unsigned width, char *to, size_t size);

#endif
