/* Offsets in the structures of one version of CPython. The same in all versions: an object begins
 * with its reference count and its type; `str` has its length at 16 and its state at 32; `bytes`
 * has its length at 16 and its bytes at 32. */
#ifndef PIANO_TARGET_PYTHON_LAYOUT_H
#define PIANO_TARGET_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct piano__python_layout {
    /* PyThreadState contains its newest frame, or points to a structure on the C stack that
     * does. */
    uint16_t thread_frame;
    bool has_cframe;
    uint16_t cframe_frame, cframe_previous;
    /* _PyInterpreterFrame. With `has_entry`, a frame says whether C code called the interpreter
     * for it. Otherwise an extra frame on the C stack follows it in the chain; its owner is
     * `owner_c`. */
    uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_bytes;
    bool has_entry;
    uint16_t frame_entry;
    uint8_t owner_c;
    uint8_t code_tags; /* low bits of the code's address that are tags */
    /* PyCodeObject */
    uint16_t code_file, code_name, code_table, code_first_line, code_instructions;
    /* str: the offset of its characters, if they are all ASCII, and if not. */
    uint16_t text_ascii, text_wide;
};

/* One function per version. Returns false if the interpreter was built in an unknown way. RUNTIME
 * is the interpreter's _PyRuntime. */
bool piano__python_layout_311(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_312(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_313(struct piano__python_layout *out, const void *runtime);
bool piano__python_layout_314(struct piano__python_layout *out, const void *runtime);

#endif
