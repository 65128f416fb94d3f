/* CPython 3.13. From this version on the interpreter says itself where things are, at the beginning of _PyRuntime (_Py_DebugOffsets in
 * Include/internal/pycore_runtime.h): that holds for builds of every kind. The free-threaded one is left out: there, a
 * `str` begins in another way. */
#include <string.h>

#include "target/python/layout.h"

struct offsets {
    char cookie[8];
    uint64_t version, free_threaded;
    uint64_t runtime[3];
    uint64_t interpreter[13];
    struct {
        uint64_t size, prev, next, interp, current_frame, rest[4];
    } thread;
    struct {
        uint64_t size, previous, executable, instr_ptr, localsplus, owner;
    } frame;
    struct {
        uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplus[2],
            code_adaptive;
    } code;
};

bool piano__python_layout_313(struct piano__python_layout *out, const void *runtime)
{
    const struct offsets *o = runtime;
    if (!o || memcmp(o->cookie, "xdebugpy", sizeof o->cookie) != 0 || o->version >> 16 != 0x30d ||
        o->free_threaded || o->frame.size > 256 || o->code.size > 512 || o->thread.size > 4096)
        return false;
    *out = (struct piano__python_layout){.thread_frame = (uint16_t)o->thread.current_frame,
                                         .frame_code = (uint16_t)o->frame.executable,
                                         .frame_previous = (uint16_t)o->frame.previous,
                                         .frame_instruction = (uint16_t)o->frame.instr_ptr,
                                         .frame_owner = (uint16_t)o->frame.owner,
                                         .frame_bytes = (uint16_t)o->frame.localsplus,
                                         .owner_c = 3,
                                         .code_file = (uint16_t)o->code.filename,
                                         .code_name = (uint16_t)o->code.qualname,
                                         .code_table = (uint16_t)o->code.linetable,
                                         .code_first_line = (uint16_t)o->code.firstlineno,
                                         .code_instructions = (uint16_t)o->code.code_adaptive,
                                         .text_ascii = 40,
                                         .text_wide = 56};
    return true;
}
