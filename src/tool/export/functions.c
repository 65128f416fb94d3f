#include "tool/export/functions.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/vec.h"

int64_t export_function(struct export_functions *f, const struct symbol_frame *frame)
{
    const char *const id[] = {frame->function, frame->module};
    uint64_t key = map_hash(id, sizeof(id));
    uint32_t at;
    for (; (at = map_find(&f->index, key)) != MAP_NONE; key++)
        if (f->list[at]->function == frame->function && f->list[at]->module == frame->module)
            return at;
    at = (uint32_t)f->count;
    if (VEC_ROOM(f->list, f->count, f->cap) != 0 || map_put(&f->index, key, at) != 0)
        return -ENOMEM;
    f->list[f->count++] = frame;
    return at;
}

void export_functions_release(struct export_functions *f)
{
    free(f->list);
    map_release(&f->index);
}
