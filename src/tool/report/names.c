/* Names as shown. Functions of the same name are distinguished by their place, or by number if
 * the file has no places. Terminal escapes in names are made visible. */
#include "tool/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"

char *report_name(const struct run *run, uint32_t fn)
{
    const struct run_fn *f = &run->fns[fn];
    size_t size = strlen(f->name) * 8 + 1;
    char *safe = malloc(size);
    struct buf b = {0};
    if (!safe)
        return NULL;
    buf_puts(&b, say_safe(safe, size, f->name));
    free(safe);
    if (f->namesake && f->place && *f->place) {
        char place[512];
        buf_printf(&b, " (%s)", say_safe(place, sizeof(place), f->place));
    } else if (f->namesake) {
        buf_printf(&b, " #%u", f->namesake);
    }
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
