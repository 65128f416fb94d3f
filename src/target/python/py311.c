/* CPython 3.11, from Include/internal/pycore_frame.h and
 * Include/cpython/{pystate,code,unicodeobject}.h of that version. Every call of the interpreter's
 * loop has a _PyCFrame on its C stack. A Python function that calls another needs no new one. */
#include "target/python/layout.h"

bool piano__python_layout_311(struct piano__python_layout *out, const void *runtime)
{
    (void)runtime;
    *out = (struct piano__python_layout){.thread_frame = 56,
                                         .has_cframe = true,
                                         .cframe_frame = 8,
                                         .cframe_previous = 16,
                                         .frame_code = 32,
                                         .frame_previous = 48,
                                         .frame_instruction = 56,
                                         .frame_owner = 69,
                                         .frame_bytes = 72,
                                         .has_entry = true,
                                         .frame_entry = 68,
                                         .code_file = 112,
                                         .code_name = 128,
                                         .code_table = 136,
                                         .code_first_line = 72,
                                         .code_instructions = 184,
                                         .text_ascii = 48,
                                         .text_wide = 72};
    return true;
}
