/* Speedscope's file format, as in its JSON schema (file-format-schema.json of the npm package): a
 * table of frames, and for each figure a "sampled" profile of stacks, root first, with weights in
 * bytes or nanoseconds. The requested figure is the first profile. Inlined functions are ordinary
 * frames. */
#include "tool/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/program.h"

/* The frames of the file: functions by name, file and line. Equal strings have equal pointers, so
 * comparing pointers is enough. */
struct frames {
    const struct symbol_frame **list;
    uint32_t *slots; /* open addressing, index + 1 */
    size_t count, size;
};

static size_t hash_of(const struct frames *f, const struct symbol_frame *frame)
{
    uint64_t h = (uintptr_t)frame->function * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 32 ^ (uintptr_t)frame->file ^ (uint64_t)frame->line << 40) * 0xc4ceb9fe1a85ec53u;
    return (size_t)(h ^ h >> 31) & (f->size - 1);
}

static bool same(const struct symbol_frame *a, const struct symbol_frame *b)
{
    return a->function == b->function && a->file == b->file && a->line == b->line;
}

static int frames_grow(struct frames *f)
{
    if (f->count * 2 < f->size)
        return 0;
    size_t size = f->size ? f->size * 2 : 1024;
    struct frames more = {.size = size, .count = f->count};
    more.list = realloc(f->list, size * sizeof(*more.list));
    if (more.list)
        f->list = more.list;
    more.slots = calloc(size, sizeof(*more.slots));
    if (!more.list || !more.slots) {
        free(more.slots);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        size_t at = hash_of(&more, more.list[i]);
        while (more.slots[at])
            at = (at + 1) & (size - 1);
        more.slots[at] = i + 1;
    }
    free(f->slots);
    *f = more;
    return 0;
}

/* The number of FRAME in the file, or negative errno. */
static int64_t number_of(struct frames *f, const struct symbol_frame *frame)
{
    if (frames_grow(f) != 0)
        return -ENOMEM;
    size_t at = hash_of(f, frame);
    for (; f->slots[at]; at = (at + 1) & (f->size - 1))
        if (same(f->list[f->slots[at] - 1], frame))
            return f->slots[at] - 1;
    f->list[f->count++] = frame;
    f->slots[at] = (uint32_t)f->count;
    return (int64_t)f->count - 1;
}

static bool is_shown(const struct profile *heap, uint32_t stack, enum heap_by by)
{
    return heap->stacks[stack].pcs && heap_figure(&heap->rec.stacks[stack].sum, by) > 0;
}

static int put_samples(struct buf *b, FILE *out, const struct profile *heap, enum heap_by by,
                       struct frames *f, const struct symbol_frame **frames)
{
    const char *comma = "";
    int err = 0;
    for (uint32_t i = 0; i < heap->rec.stack_count && err == 0; i++) {
        if (!is_shown(heap, i, by))
            continue;
        buf_printf(b, "%s[", comma);
        for (size_t k = profile_frames(heap, i, frames); k-- > 0 && err == 0;) {
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
static int64_t put_weights(struct buf *b, const struct profile *heap, enum heap_by by)
{
    struct export_rounding rounding = {0};
    const char *comma = "";
    for (uint32_t i = 0; i < heap->rec.stack_count; i++) {
        if (!is_shown(heap, i, by))
            continue;
        double weight = heap_figure(&heap->rec.stacks[i].sum, by);
        buf_printf(b, "%s%lld", comma, (long long)export_round(&rounding, weight));
        comma = ",";
    }
    return rounding.given;
}

static int put_profile(struct buf *b, FILE *out, const struct profile *heap, enum heap_by by,
                       struct frames *f, const struct symbol_frame **frames)
{
    static const char *const names[HEAP_ALL_BYS] = {
        "live bytes",    "allocated bytes", "bytes live at the peak",
        "churned bytes", "CPU time",        "time off the CPU"};
    buf_printf(b, "{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"samples\":[\n",
               names[by], by < HEAP_BYS ? "bytes" : "nanoseconds");
    int err = put_samples(b, out, heap, by, f, frames);
    buf_puts(b, "],\"weights\":[");
    int64_t sum = put_weights(b, heap, by);
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

int export_speedscope(FILE *out, const struct profile *heap, enum heap_by by)
{
    static const enum heap_by memory[] = {HEAP_LIVE, HEAP_ALLOCATED, HEAP_PEAK};
    static const enum heap_by time[] = {HEAP_CPU, HEAP_OFF_CPU};
    const enum heap_by *all = by < HEAP_BYS ? memory : time;
    size_t count = by < HEAP_BYS ? 3 : 2;
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct frames f = {.list = NULL};
    struct buf b = {0};
    const struct piano__rec_header *h = &heap->rec.header;
    char name[PIANO_REC_PATH];
    int err = frames ? 0 : -ENOMEM;
    buf_puts(&b, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":");
    json_put_string(&b, program_called(name, sizeof(name), h->program, h->command));
    buf_puts(&b, ",\"exporter\":\"piano\",\"activeProfileIndex\":0,\"profiles\":[");
    if (err == 0)
        err = put_profile(&b, out, heap, by, &f, frames);
    for (size_t i = 0; i < count && err == 0; i++)
        if (all[i] != by) {
            buf_puts(&b, ",\n");
            err = put_profile(&b, out, heap, all[i], &f, frames);
        }
    buf_puts(&b, "],\n");
    put_frames(&b, &f);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    free(f.list);
    free(f.slots);
    free(frames);
    return err;
}
