/* Names of callbacks. A hook in the program knows a callback by its address alone and names it "timer@0x55d0c0ffee00"; here,
 * where there are symbols, that becomes "timer on_tick". */
#include "tool/report/polls.h"

#include <string.h>

#include "tool/util/buf.h"

/* The number that NAME ends with behind "@0x", and how much is before that; false: it does not end like this. */
static bool split(const char *name, size_t *len, uint64_t *address)
{
    const char *at = strrchr(name, '@');
    if (!at || strncmp(at, "@0x", 3) != 0)
        return false;
    size_t digits = strspn(at + 3, "0123456789abcdef");
    if (digits == 0 || digits > 16 || at[3 + digits])
        return false;
    *len = (size_t)(at - name);
    *address = 0;
    for (const char *p = at + 3; *p; p++)
        *address = *address << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
    return true;
}

/* The module at PC; NULL when none was recorded, or one after another, since nobody knows when the name was given. */
static const struct recording_module *module_at(const struct recording *rec, uint64_t pc)
{
    const struct recording_module *found = NULL;
    for (size_t i = 0; i < rec->module_count; i++) {
        const struct recording_module *m = &rec->modules[i];
        if (pc < m->start || pc >= m->end)
            continue;
        if (found && (found->bias != m->bias || strcmp(found->path, m->path) != 0))
            return NULL;
        found = m;
    }
    return found;
}

void polls_put_callback(struct buf *b, const struct polls *p, const char *name)
{
    size_t len = 0;
    uint64_t pc = 0;
    const struct recording_module *m =
        split(name, &len, &pc) && p->named.symbols ? module_at(p->rec, pc) : NULL;
    if (!m) {
        buf_puts(b, name);
        return;
    }
    const struct symbol_module module = {.path = m->path,
                                         .build_id = m->build_id,
                                         .build_id_len = m->build_id_len,
                                         .bias = m->bias,
                                         .start = m->start,
                                         .end = m->end};
    const struct symbol_frame *frames = NULL;
    size_t count = symbols_resolve(p->named.symbols, &module, pc, &frames);
    buf_printf(b, "%.*s %s", (int)len, name, frames[count - 1].function);
}
