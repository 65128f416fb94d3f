/* Where things are in the structures of one version of CPython. What versions have in common: an object begins with its reference
 * count and its type; `str` has its length at 16 and its state at 32; `bytes` has its length at 16 and its bytes at 32. */
#ifndef PIANO_TARGET_PYTHON_LAYOUT_H
#define PIANO_TARGET_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct piano__python_layout {
    /* PyThreadState has its newest frame, or a structure on the C stack that has it. */
    uint16_t thread_frame;
    bool has_cframe;
    uint16_t cframe_frame, cframe_previous;
    /* _PyInterpreterFrame. With `has_entry`, a frame says whether the interpreter was called from C for it. Otherwise there is one
     * more frame, on the C stack, behind it: its owner is `owner_c`. */
    uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_bytes;
    bool has_entry;
    uint16_t frame_entry;
    uint8_t owner_c;
    uint8_t code_tags; /* low bits of the code's address that are not part of it */
    /* PyCodeObject */
    uint16_t code_file, code_name, code_table, code_first_line, code_instructions;
    /* str: where its characters are, when they are all ASCII, and when not. */
    uint16_t text_ascii, text_wide;
};

/* Of each version; false when this interpreter is built in a way that is not known. RUNTIME is the interpreter's _PyRuntime. */
bool piano__python_layout_311(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_312(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_313(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_314(struct piano__python_layout *out, const void *runtime);

#endif
