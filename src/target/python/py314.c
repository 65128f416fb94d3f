/* CPython 3.14, by Include/internal/pycore_debug_offsets.h and pycore_interpframe_structs.h as published. NOT TESTED: no interpreter
 * of this version was at hand. As in 3.13 the interpreter says where things are; its table has grown, and a frame has its
 * code with marks in the low bits of the address. */
#include <string.h>

#include "target/python/layout.h"

struct offsets {
    char cookie[8];
    uint64_t version, free_threaded;
    uint64_t runtime[3];
    uint64_t interpreter[16];
    struct {
        uint64_t size, prev, next, interp, current_frame, rest[4];
    } thread;
    struct {
        uint64_t size, previous, executable, instr_ptr, localsplus, owner, rest[2];
    } frame;
    struct {
        uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplus[2],
            code_adaptive, tlbc;
    } code;
};

bool piano__python_layout_314(struct piano__python_layout *out, const void *runtime)
{
    const struct offsets *o = runtime;
    if (!o || memcmp(o->cookie, "xdebugpy", sizeof o->cookie) != 0 || o->version >> 16 != 0x30e ||
        o->free_threaded || o->frame.size > 256 || o->code.size > 512 || o->thread.size > 4096)
        return false;
    *out = (struct piano__python_layout){.thread_frame = (uint16_t)o->thread.current_frame,
                                         .frame_code = (uint16_t)o->frame.executable,
                                         .frame_previous = (uint16_t)o->frame.previous,
                                         .frame_instruction = (uint16_t)o->frame.instr_ptr,
                                         .frame_owner = (uint16_t)o->frame.owner,
                                         .frame_bytes = (uint16_t)o->frame.localsplus,
                                         .owner_c = 3,
                                         .code_tags = 3,
                                         .code_file = (uint16_t)o->code.filename,
                                         .code_name = (uint16_t)o->code.qualname,
                                         .code_table = (uint16_t)o->code.linetable,
                                         .code_first_line = (uint16_t)o->code.firstlineno,
                                         .code_instructions = (uint16_t)o->code.code_adaptive,
                                         .text_ascii = 40,
                                         .text_wide = 56};
    return true;
}
