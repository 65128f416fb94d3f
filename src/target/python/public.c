/* Python's part of the installed interface, include/piano.h. */
#include "piano.h"

#include "common/python.h"
#include "target/python/codes.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int piano_python_frame(uint64_t pc, struct piano_python_frame *out)
{
    if (!piano__python_is(pc))
        return 0;
    *out = (struct piano_python_frame){.function = "(python)"};
    const struct piano__python_code *c = piano__python_record(piano__python_code_of(pc));
    if (!c)
        return 1;
    const char *file = c->text + c->name_len;
    piano__python_text(c->text, c->name_len, c->name_width, out->function, sizeof out->function);
    piano__python_text(file, c->file_len, c->file_width, out->file, sizeof out->file);
    out->line = piano__python_line(c->first_line, (const uint8_t *)file + c->file_len, c->table_len,
                                   piano__python_instruction_of(pc));
    return 1;
}
