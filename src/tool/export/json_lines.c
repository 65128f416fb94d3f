/* One JSON object per stack and line: its weight (bytes or nanoseconds) and its functions, root
 * first. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/json.h"

static void put_stack(struct buf *b, const struct symbol_frame **frames, size_t count,
                      int64_t weight)
{
    buf_printf(b, "{\"weight\":%lld,\"stack\":[", (long long)weight);
    for (size_t i = count; i-- > 0;) {
        json_put_string(b, frames[i]->function);
        buf_puts(b, i ? "," : "");
    }
    buf_puts(b, "]}\n");
}

int export_json_lines(FILE *out, const struct profile *heap, enum heap_by by)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct export_rounding rounding = {0};
    struct buf b = {0};
    int err = frames ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < heap->rec.stack_count && err == 0; i++) {
        double weight = heap_figure(&heap->rec.stacks[i].sum, by);
        if (!heap->stacks[i].pcs || weight <= 0)
            continue;
        put_stack(&b, frames, profile_frames(heap, i, frames), export_round(&rounding, weight));
        err = buf_flush(&b, out, false);
    }
    err = err ? err : buf_flush(&b, out, true);
    buf_free(&b);
    free(frames);
    return err;
}
