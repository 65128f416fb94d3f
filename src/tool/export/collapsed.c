/* Collapsed stacks: `root;caller;leaf WEIGHT` (bytes or nanoseconds), one line per stack, for flame
 * graph tools. Stacks with equal names share a line. A semicolon in a name would split it, and a
 * newline would end it; both are replaced. White space is replaced too, because the number starts
 * after the last blank. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/export/series.h"
#include "tool/util/buf.h"
#include "tool/util/order.h"

struct line {
    char *text; /* first, for `order_text` */
    double weight;
};

static void put_name(struct buf *b, const char *name)
{
    char *safe = profile_safe_name(name, false);
    for (char *c = safe; c && *c; c++)
        if (*c == ';' || *c == ' ')
            *c = *c == ';' ? ':' : '_';
    buf_puts(b, safe && *safe ? safe : "?");
    free(safe);
}

static char *stack_text(const struct series *t, const struct series_row *row,
                        const struct symbol_frame **frames)
{
    struct buf b = {0};
    for (size_t i = series_frames(t, row, frames); i-- > 0;) {
        put_name(&b, frames[i]->function);
        buf_puts(&b, i ? ";" : "");
    }
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}

static int print(FILE *out, struct line *lines, size_t count)
{
    struct export_rounding rounding = {0};
    for (size_t i = 0; i < count;) {
        double weight = 0;
        size_t first = i;
        for (; i < count && strcmp(lines[i].text, lines[first].text) == 0; i++)
            weight += lines[i].weight;
        int64_t bytes = export_round(&rounding, weight);
        if (bytes > 0 && fprintf(out, "%s %lld\n", lines[first].text, (long long)bytes) < 0)
            return -EIO;
    }
    return 0;
}

static int print_series(FILE *out, const struct series *t)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct line *lines = calloc(t->row_count + 1, sizeof(*lines));
    size_t count = 0;
    int err = frames && lines ? 0 : -ENOMEM;
    for (size_t i = 0; i < t->row_count && err == 0; i++) {
        double weight = t->rows[i].values[t->chosen];
        if (weight <= 0)
            continue;
        lines[count] = (struct line){stack_text(t, &t->rows[i], frames), weight};
        err = lines[count].text ? 0 : -ENOMEM;
        count += err == 0;
    }
    if (count)
        qsort(lines, count, sizeof(*lines), order_text);
    if (err == 0)
        err = print(out, lines, count);
    for (size_t i = 0; i < count; i++)
        free(lines[i].text);
    free(lines);
    free(frames);
    return err;
}

int export_collapsed(FILE *out, const struct export_source *s)
{
    struct series t;
    int err = series_make(&t, s, false);
    if (err == 0)
        err = print_series(out, &t);
    series_release(&t);
    return err;
}
