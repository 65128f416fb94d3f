/* TRIM. The runtime has replaced the frames of the interpreter's loop by the Python functions
 * they ran (src/target/python/frames.c). The other interpreter frames in such a stack add no
 * information: they lead from a call to the loop, or from the start of the program to the first
 * function. So python_trim() removes the interpreter's frames outside the innermost Python
 * function. Frames of other modules stay: an extension that calls back, or a program with an
 * embedded interpreter. All frames inside the innermost Python function stay, because they show
 * what it was doing.
 *
 * The C library's start frames outside the outermost Python function are removed too, if nothing
 * else is there. */
#include "tool/profile/python.h"

#include <string.h>

#include "common/python.h"

const char python_module[] = "[python]";

struct symbol_frame python_resolve(const struct recording *rec, uint64_t pc)
{
    static const char unknown[] = "(python)";
    const struct recording_code *code = recording_code_of(rec, piano__python_code_of(pc));
    struct symbol_frame frame = {.function = unknown, .module = python_module, .python = true};
    if (!code)
        return frame;
    frame.function = code->name;
    frame.file = code->file;
    frame.line = piano__python_line(code->first_line, code->table, code->table_len,
                                    piano__python_instruction_of(pc));
    return frame;
}

bool python_is_interpreter(const struct symbol_frame *frame)
{
    const char *m = frame->module;
    if (frame->python)
        return false;
    return strncmp(m, "libpython", 9) == 0 || strcmp(m, "python") == 0 ||
           (strncmp(m, "python", 6) == 0 && m[6] >= '2' && m[6] <= '9' && !strstr(m, ".so"));
}

static const struct symbol_frame *frame_of(const struct profile *heap, uint32_t pc)
{
    return &heap->pcs[pc].frames[heap->pcs[pc].count - 1];
}

uint32_t python_trim(const struct profile *heap, uint32_t *pcs, uint32_t depth)
{
    uint32_t first = 0, last, kept;
    while (first < depth && !frame_of(heap, pcs[first])->python)
        first++;
    if (first == depth)
        return depth;
    kept = last = first;
    for (uint32_t i = first; i < depth; i++) {
        const struct symbol_frame *f = frame_of(heap, pcs[i]);
        if (python_is_interpreter(f))
            continue;
        pcs[kept++] = pcs[i];
        if (f->python)
            last = kept;
    }
    for (uint32_t i = last; i < kept; i++)
        if (!profile_is_plumbing(frame_of(heap, pcs[i])))
            return kept;
    return last;
}
