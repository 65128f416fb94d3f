/* The table of offsets at the beginning of _PyRuntime, in CPython 3.13 and later. Each version has
 * a different table, but these parts have the same names in all. O points to a `struct offsets` of
 * one version. */
#ifndef PIANO_TARGET_PYTHON_OFFSETS_H
#define PIANO_TARGET_PYTHON_OFFSETS_H

#include <string.h>

#include "target/python/layout.h"

/* Tests whether this is such a table, of VERSION, and of an interpreter that was built in a known
 * way. */
#define PIANO_PYTHON_TELLS(o, v)                                                                   \
    ((o) && memcmp((o)->cookie, "xdebugpy", sizeof(o)->cookie) == 0 &&                             \
     (o)->version >> 16 == (v) && !(o)->free_threaded && (o)->frame.size <= 256 &&                 \
     (o)->code.size <= 512 && (o)->thread.size <= 4096)

/* The layout from the table, with the fields that the table lacks. */
#define PIANO_PYTHON_TOLD(o, ...)                                                                  \
    ((struct piano__python_layout){.thread_frame = (uint16_t)(o)->thread.current_frame,            \
                                   .frame_code = (uint16_t)(o)->frame.executable,                  \
                                   .frame_previous = (uint16_t)(o)->frame.previous,                \
                                   .frame_instruction = (uint16_t)(o)->frame.instr_ptr,            \
                                   .frame_owner = (uint16_t)(o)->frame.owner,                      \
                                   .frame_bytes = (uint16_t)(o)->frame.localsplus,                 \
                                   .owner_c = 3,                                                   \
                                   .code_file = (uint16_t)(o)->code.filename,                      \
                                   .code_name = (uint16_t)(o)->code.qualname,                      \
                                   .code_table = (uint16_t)(o)->code.linetable,                    \
                                   .code_first_line = (uint16_t)(o)->code.firstlineno,             \
                                   .code_instructions = (uint16_t)(o)->code.code_adaptive,         \
                                   .text_ascii = 40,                                               \
                                   .text_wide = 56,                                                \
                                   __VA_ARGS__})

#endif
