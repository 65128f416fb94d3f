/* CPython 3.13. From this version on, the interpreter provides its offsets at the beginning of
 * _PyRuntime (_Py_DebugOffsets in Include/internal/pycore_runtime.h), for all kinds of builds. The
 * free-threaded build is not supported: its `str` has a different layout. */
#include "target/python/offsets.h"

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
    if (!PIANO_PYTHON_TELLS(o, 0x30d))
        return false;
    *out = PIANO_PYTHON_TOLD(o, .code_tags = 0);
    return true;
}
