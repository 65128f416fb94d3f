/* Names as they are shown. Two functions of one name are told apart by their place; without places
 * in the file, by number. Whatever the name holds, no terminal escape gets through. */
#include "tool/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"

/* How many shown functions before (and after) FN share its name. */
static void namesakes(const struct run *run, uint32_t fn, size_t *before, size_t *others)
{
    *before = *others = 0;
    for (uint32_t i = 0; i < run->fn_count; i++) {
        if (i == fn || run->fns[i].alias || strcmp(run->fns[i].name, run->fns[fn].name) != 0)
            continue;
        *others += 1;
        *before += i < fn;
    }
}

char *report_name(const struct run *run, uint32_t fn)
{
    const struct run_fn *f = &run->fns[fn];
    size_t size = strlen(f->name) * 8 + 1, before, others;
    char *safe = malloc(size);
    struct buf b = {0};
    if (!safe)
        return NULL;
    buf_puts(&b, say_safe(safe, size, f->name));
    free(safe);
    namesakes(run, fn, &before, &others);
    if (others > 0 && f->place && *f->place) {
        char place[512];
        buf_printf(&b, " (%s)", say_safe(place, sizeof(place), f->place));
    } else if (others > 0) {
        buf_printf(&b, " #%zu", before + 1);
    }
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
