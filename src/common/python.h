/* Python functions in a recording. A frame of a Python function holds the number of its code object
 * and of the instruction in place of an address. Its upper bits are never set in an address of a
 * program or of the kernel. */
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

/* Returns 0 for a function whose name could not be read. */
static inline uint32_t piano__python_code_of(uint64_t pc)
{
    return (uint32_t)(pc >> 24) & PIANO_PYTHON_MOST;
}

static inline uint32_t piano__python_instruction_of(uint64_t pc)
{
    return (uint32_t)pc & PIANO_PYTHON_MOST;
}

/* Returns the line of INSTRUCTION (counted in two-byte code units from 0), or 0 if it has none.
 * TABLE is a co_linetable of 3.11 or later; it may contain anything. */
unsigned piano__python_line(uint32_t first_line, const uint8_t *table, size_t len,
                            uint32_t instruction);

/* Converts LEN bytes of str characters, WIDTH (1, 2 or 4) bytes each, to UTF-8. Writes at most SIZE
 * bytes to TO, truncates if needed, and ends them with a NUL. Bytes of file names that are not
 * valid UTF-8 come out unchanged. Returns the length. */
size_t piano__python_text(const void *chars, size_t len, unsigned width, char *to, size_t size);

#endif
