/* Names that contain addresses. A hook in the program knows a callback only by its address and
 * names it "timer@0x55d0c0ffee00". With symbols this becomes "timer on_tick". If the hook knows
 * the call, the name is "omp task@call:0x55d0c0ffee00", which becomes "omp task sort
 * (sort.c:41)". */
#include "tool/profile/polls.h"

#include <string.h>

#include "tool/profile/kept.h"
#include "tool/util/buf.h"

struct address {
    size_t before; /* length of the name before its '@' */
    uint64_t pc;
    bool is_call;
};

/* Returns false if NAME does not end with an address. */
static bool split(const char *name, struct address *a)
{
    const char *at = strrchr(name, '@');
    if (!at)
        return false;
    a->before = (size_t)(at - name);
    a->is_call = strncmp(at, "@call:", 6) == 0;
    at += a->is_call ? 6 : 1;
    if (strncmp(at, "0x", 2) != 0)
        return false;
    at += 2;
    size_t digits = strspn(at, "0123456789abcdef");
    if (digits == 0 || digits > 16 || at[digits])
        return false;
    a->pc = 0;
    for (; *at; at++)
        a->pc = a->pc << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return true;
}

/* The module at PC. NULL if none was recorded, or if several were there at different times,
 * because the time of the name is unknown. */
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

const struct recording_module *polls_callback_at(const struct recording *rec, const char *name,
                                                 uint64_t *pc)
{
    struct address a;
    if (!split(name, &a))
        return NULL;
    *pc = a.pc;
    return module_at(rec, a.pc);
}

/* The compiler outlines parts of OpenMP programs into functions with generated names. */
static bool is_outlined(const char *function)
{
    return strstr(function, ".omp_") != NULL;
}

/* INNERMOST is the function whose source contains the call, even if it was inlined. */
static void put_call(struct buf *b, const struct symbol_frame *innermost)
{
    const char *function = innermost->function, *file = innermost->file;
    if (!file) {
        buf_printf(b, " %s", function);
        return;
    }
    const char *base = strrchr(file, '/');
    base = base ? base + 1 : file;
    if (is_outlined(function))
        buf_printf(b, " %s:%u", base, innermost->line);
    else
        buf_printf(b, " %s (%s:%u)", function, base, innermost->line);
}

void polls_put_callback(struct buf *b, const struct polls *p, const char *name)
{
    struct address a;
    const struct recording_module *m =
        split(name, &a) && p->profile->symbols ? module_at(p->rec, a.pc) : NULL;
    if (!m) {
        buf_puts(b, name);
        return;
    }
    const struct symbol_module module = kept_module(m);
    const struct symbol_frame *frames = NULL;
    size_t count = symbols_resolve(p->profile->symbols, &module, a.pc, &frames);
    buf_printf(b, "%.*s", (int)a.before, name);
    if (a.is_call)
        put_call(b, &frames[0]);
    else
        buf_printf(b, " %s", frames[count - 1].function);
}
