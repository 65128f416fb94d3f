/* CPython 3.12, from the same headers as 3.11. The interpreter's loop now puts a frame of its own,
 * on the C stack, after the frame that it was called for. */
#include "target/python/layout.h"

bool piano__python_layout_312(struct piano__python_layout *out, const void *runtime)
{
    (void)runtime;
    *out = (struct piano__python_layout){.thread_frame = 56,
                                         .has_cframe = true,
                                         .cframe_frame = 0,
                                         .cframe_previous = 8,
                                         .frame_code = 0,
                                         .frame_previous = 8,
                                         .frame_instruction = 56,
                                         .frame_owner = 70,
                                         .frame_bytes = 72,
                                         .owner_c = 3,
                                         .code_file = 112,
                                         .code_name = 128,
                                         .code_table = 136,
                                         .code_first_line = 68,
                                         .code_instructions = 192,
                                         .text_ascii = 40,
                                         .text_wide = 56};
    return true;
}
