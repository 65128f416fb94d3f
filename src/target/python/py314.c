/* CPython 3.14, from Include/internal/pycore_debug_offsets.h and pycore_interpframe_structs.h. NOT
 * TESTED with a real interpreter. As in 3.13, the interpreter provides its offsets. The table has
 * more fields, and the code address in a frame has tags in its low bits. */
#include "target/python/offsets.h"

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
    if (!PIANO_PYTHON_TELLS(o, 0x30e))
        return false;
    *out = PIANO_PYTHON_TOLD(o, .code_tags = 3);
    return true;
}
