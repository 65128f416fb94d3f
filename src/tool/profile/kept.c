/* Connects the reader of recordings and the symbolizer, which do not know each other. */
#include "tool/profile/kept.h"

#include "tool/symbol/kernel.h"

struct symbol_module kept_module(const struct recording_module *m)
{
    return (struct symbol_module){.path = m->path,
                                  .build_id = m->build_id,
                                  .build_id_len = m->build_id_len,
                                  .bias = m->bias,
                                  .start = m->start,
                                  .end = m->end};
}

static uint32_t find_module(void *symbols, const struct symbol_module *m)
{
    return recording_symbol_module(symbols, m->path, m->build_id, m->build_id_len);
}

/* If one frame has no name, none are used: the reader could not see which one is missing. */
static size_t find_frames(void *symbols, uint32_t number, uint64_t addr,
                          struct symbol_frame *frames, size_t most)
{
    const struct piano__symbol_frame *kept = NULL;
    uint32_t texts = 0;
    size_t count = recording_symbol_frames(symbols, number, addr, &kept, &texts);
    if (count > most)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct piano__symbol_frame f = kept[i];
        const char *file = f.file ? recording_symbol_text(symbols, f.file + texts) : NULL;
        frames[i] =
            (struct symbol_frame){.function = recording_symbol_text(symbols, f.function + texts),
                                  .file = file,
                                  .line = f.line,
                                  .inlined = f.flags & PIANO_SYMBOL_INLINED};
        if (!frames[i].function)
            return 0;
    }
    return count;
}

void kept_give(const struct recording *rec, struct symbols *symbols)
{
    const struct symbol_memory memory = {rec->symbols, find_module, find_frames};
    if (rec->symbols)
        symbols_remember(symbols, &memory);
}

bool kept_kernel(const struct recording *rec, uint64_t pc, struct symbol_frame *frame)
{
    struct symbol_frame kept;
    if (!rec->symbols || find_frames(rec->symbols, 0, pc, &kept, 1) != 1)
        return false;
    *frame = (struct symbol_frame){.function = kept.function, .module = kernel_module};
    return true;
}
