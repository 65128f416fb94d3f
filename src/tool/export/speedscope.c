/* Speedscope's file format, as in its JSON schema (file-format-schema.json of the npm package): a
 * table of frames, and for each figure a "sampled" profile of stacks, root first, with weights in
 * bytes or nanoseconds. The requested figure is the first profile. Inlined functions are ordinary
 * frames. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/json.h"
#include "tool/util/map.h"
#include "tool/util/program.h"
#include "tool/util/vec.h"

/* The frames of the file: functions by name, file and line. Equal strings have equal pointers, so
 * comparing pointers is enough. */
struct frames {
    const struct symbol_frame **list;
    size_t count, cap;
    struct map index; /* by a hash of those pointers and the line */
};

/* The number of FRAME in the file, or -ENOMEM. */
static int64_t number_of(struct frames *f, const struct symbol_frame *frame)
{
    const uint64_t id[] = {(uintptr_t)frame->function,
                           (uintptr_t)frame->file ^ (uint64_t)frame->line << 32};
    uint64_t key = map_hash(id, sizeof(id));
    uint32_t at;
    for (; (at = map_find(&f->index, key)) != MAP_NONE; key++) {
        const struct symbol_frame *g = f->list[at];
        if (g->function == frame->function && g->file == frame->file && g->line == frame->line)
            return at;
    }
    at = (uint32_t)f->count;
    if (VEC_ROOM(f->list, f->count, f->cap) != 0 || map_put(&f->index, key, at) != 0)
        return -ENOMEM;
    f->list[f->count++] = frame;
    return at;
}

static bool is_shown(const struct profile *p, uint32_t stack, enum figure by)
{
    return p->stacks[stack].pcs && figure_value(&p->rec.stacks[stack].sum, by) > 0;
}

static int put_samples(struct buf *b, FILE *out, const struct profile *p, enum figure by,
                       struct frames *f, const struct symbol_frame **frames)
{
    const char *comma = "";
    int err = 0;
    for (uint32_t i = 0; i < p->rec.stack_count && err == 0; i++) {
        if (!is_shown(p, i, by))
            continue;
        buf_printf(b, "%s[", comma);
        for (size_t k = profile_frames(p, i, frames); k-- > 0 && err == 0;) {
            int64_t number = number_of(f, frames[k]);
            err = number < 0 ? (int)number : 0;
            buf_printf(b, "%lld%s", (long long)number, k ? "," : "");
        }
        buf_puts(b, "]");
        comma = ",\n";
        if (err == 0)
            err = buf_flush(b, out, false);
    }
    return err;
}

/* Returns the sum of the weights. */
static int64_t put_weights(struct buf *b, const struct profile *p, enum figure by)
{
    struct export_rounding rounding = {0};
    const char *comma = "";
    for (uint32_t i = 0; i < p->rec.stack_count; i++) {
        if (!is_shown(p, i, by))
            continue;
        double weight = figure_value(&p->rec.stacks[i].sum, by);
        buf_printf(b, "%s%lld", comma, (long long)export_round(&rounding, weight));
        comma = ",";
    }
    return rounding.given;
}

static int put_profile(struct buf *b, FILE *out, const struct profile *p, enum figure by,
                       struct frames *f, const struct symbol_frame **frames)
{
    static const char *const names[FIGURES] = {
        "live bytes",    "allocated bytes", "bytes live at the peak",
        "churned bytes", "CPU time",        "time off the CPU"};
    buf_printf(b, "{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"samples\":[\n",
               names[by], by < FIGURES_OF_HEAP ? "bytes" : "nanoseconds");
    int err = put_samples(b, out, p, by, f, frames);
    buf_puts(b, "],\"weights\":[");
    int64_t sum = put_weights(b, p, by);
    buf_printf(b, "],\"startValue\":0,\"endValue\":%lld}", (long long)sum);
    return err;
}

static void put_frames(struct buf *b, const struct frames *f)
{
    buf_puts(b, "\"shared\":{\"frames\":[");
    for (size_t i = 0; i < f->count; i++) {
        buf_puts(b, i ? ",\n{\"name\":" : "\n{\"name\":");
        json_put_string(b, f->list[i]->function);
        if (f->list[i]->file) {
            buf_puts(b, ",\"file\":");
            json_put_string(b, f->list[i]->file);
        }
        if (f->list[i]->line)
            buf_printf(b, ",\"line\":%u", f->list[i]->line);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}");
}

int export_speedscope(FILE *out, const struct profile *p, enum figure by)
{
    static const enum figure memory[] = {FIGURE_LIVE, FIGURE_ALLOCATED, FIGURE_PEAK};
    static const enum figure time[] = {FIGURE_CPU, FIGURE_OFF_CPU};
    const enum figure *all = by < FIGURES_OF_HEAP ? memory : time;
    size_t count = by < FIGURES_OF_HEAP ? 3 : 2;
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct frames f = {.list = NULL};
    struct buf b = {0};
    const struct piano__rec_header *h = &p->rec.header;
    char name[PIANO_REC_PATH];
    int err = frames ? 0 : -ENOMEM;
    buf_puts(&b, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":");
    json_put_string(&b, program_called(name, sizeof(name), h->program, h->command));
    buf_puts(&b, ",\"exporter\":\"piano\",\"activeProfileIndex\":0,\"profiles\":[");
    if (err == 0)
        err = put_profile(&b, out, p, by, &f, frames);
    for (size_t i = 0; i < count && err == 0; i++)
        if (all[i] != by) {
            buf_puts(&b, ",\n");
            err = put_profile(&b, out, p, all[i], &f, frames);
        }
    buf_puts(&b, "],\n");
    put_frames(&b, &f);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    free(f.list);
    map_release(&f.index);
    free(frames);
    return err;
}
