/* `piano report --heap --leaks`: memory that was not freed, by stack, with the names of all
 * frames. piano cannot know whether a pointer to it still existed. Many old blocks of one size
 * are suspicious.
 *
 * Stacks that print identically, such as two calls on one line, are merged. */
#include "tool/report/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { LEAKS_TOP = 10 };

struct leak {
    struct recording_sum sum;
    uint64_t key; /* hash of the printed frames */
    uint32_t stack;
    uint32_t stacks; /* number of stacks */
};

static int compare(const void *a, const void *b)
{
    const struct leak *x = a, *y = b;
    return ORDER(y->sum.live_bytes, x->sum.live_bytes) ?: ORDER(x->stack, y->stack);
}

static int compare_keys(const void *a, const void *b)
{
    const struct leak *x = a, *y = b;
    return ORDER(x->key, y->key) ?: ORDER(x->stack, y->stack);
}

/* ---- stacks that print alike ---- */

enum { SHOWN_FLAGS = PIANO_STACK_LOST | PIANO_STACK_FULL | PIANO_STACK_MMAP };

/* Strings are shared: equal names are one pointer. */
static uint64_t key_of(const struct profile *heap, uint32_t stack,
                       const struct symbol_frame **frames)
{
    size_t count = profile_frames(heap, stack, frames);
    uint64_t h = heap->rec.stacks[stack].flags & SHOWN_FLAGS;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_frame *f = frames[i];
        const uint64_t parts[] = {(uintptr_t)f->function, (uintptr_t)f->file,
                                  (uint64_t)f->line * 2 + f->inlined, (uintptr_t)f->module};
        for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
            h = (h ^ parts[k]) * 0xff51afd7ed558ccdu;
            h ^= h >> 32;
        }
    }
    return h;
}

static bool print_alike(const struct profile *heap, uint32_t a, uint32_t b,
                        const struct symbol_frame **frames, const struct symbol_frame **others)
{
    size_t count = profile_frames(heap, a, frames);
    if (profile_frames(heap, b, others) != count ||
        (heap->rec.stacks[a].flags & SHOWN_FLAGS) != (heap->rec.stacks[b].flags & SHOWN_FLAGS))
        return false;
    for (size_t i = 0; i < count; i++)
        if (frames[i]->function != others[i]->function || frames[i]->file != others[i]->file ||
            frames[i]->line != others[i]->line || frames[i]->inlined != others[i]->inlined ||
            frames[i]->module != others[i]->module)
            return false;
    return true;
}

/* Merges stacks that print identically. Returns the number left, or negative errno. */
static int64_t merge(const struct profile *heap, struct leak *leaks, size_t count)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    const struct symbol_frame **others = calloc(PROFILE_MAX_FRAMES, sizeof(*others));
    bool fine = frames && others;
    size_t kept = 0;
    for (size_t i = 0; fine && i < count; i++)
        leaks[i].key = key_of(heap, leaks[i].stack, frames);
    if (fine && count)
        qsort(leaks, count, sizeof(*leaks), compare_keys);
    for (size_t i = 0; fine && i < count; i++) {
        struct leak *last = kept ? &leaks[kept - 1] : NULL;
        if (last && last->key == leaks[i].key &&
            print_alike(heap, last->stack, leaks[i].stack, frames, others)) {
            recording_sum_add(&last->sum, &leaks[i].sum);
            last->stacks++;
        } else {
            leaks[kept++] = leaks[i];
        }
    }
    free(frames);
    free(others);
    return fine ? (int64_t)kept : -ENOMEM;
}

/* ---- text ---- */

static void print_head(FILE *out, const struct profile *heap, size_t number,
                       const struct leak *leak, const struct report_options *o)
{
    const struct recording_sum *s = &leak->sum;
    char text[UNITS_LEN], other[UNITS_LEN];
    double low, high;
    recording_live_interval(&heap->rec, s, &low, &high);
    fprintf(out, "\n%s%zu. %s", o->colour ? "\x1b[1m" : "", number,
            figure_bytes(text, s->live_bytes));
    if (high - s->live_bytes > 0.5)
        fprintf(out, " +- %s", figure_bytes(text, high - s->live_bytes));
    fprintf(out, " in %lld object%s%s", (long long)figure_whole(s->live_objects),
            figure_whole(s->live_objects) == 1 ? "" : "s", o->colour ? "\x1b[0m" : "");
    if (s->live_samples > 0) {
        uint64_t end = heap->rec.end_ns;
        int64_t age = end > s->oldest_ns ? (int64_t)(end - s->oldest_ns) : 0;
        fprintf(out, " | %s", units_bytes(text, figure_whole((double)s->size_min)));
        if (s->size_max > s->size_min)
            fprintf(out, " to %s", units_bytes(other, figure_whole((double)s->size_max)));
        fprintf(out, " each | oldest %s | %llu sample%s", units_time(text, age),
                (unsigned long long)s->live_samples, s->live_samples == 1 ? "" : "s");
    }
    if (leak->stacks > 1)
        fprintf(out, " | %u stacks that look alike", leak->stacks);
    fputc('\n', out);
}

static int print_stack(FILE *out, const struct profile *heap, uint32_t stack,
                       const struct symbol_frame **frames, const struct report_options *o)
{
    size_t count = profile_frames(heap, stack, frames);
    uint32_t flags = heap->rec.stacks[stack].flags;
    char place[700], cut[1024];
    for (size_t i = 0; i < count; i++) {
        char *name = profile_safe_name(frames[i]->function, false);
        struct buf b = {0};
        if (!name)
            return -ENOMEM;
        buf_printf(&b, "    %s%s", name, frames[i]->inlined ? " (inlined)" : "");
        free(name);
        if (frames[i]->file)
            buf_printf(&b, "  %s",
                       heap_place(place, sizeof(place), frames[i]->file, frames[i]->line));
        else
            buf_printf(&b, "  [%s]", say_safe(place, sizeof(place), frames[i]->module));
        if (b.failed) {
            buf_free(&b);
            return -ENOMEM;
        }
        if (o->width && table_width(b.data) > o->width) {
            table_shorten(cut, sizeof(cut), b.data, o->width);
            fprintf(out, "%s\n", cut);
        } else {
            fprintf(out, "%s\n", b.data);
        }
        buf_free(&b);
    }
    if (flags & (PIANO_STACK_LOST | PIANO_STACK_FULL))
        report_dim(out, o->colour, "    (%s)",
                   flags & PIANO_STACK_FULL ? "deeper than 128 frames: the rest is cut off"
                                            : "the stack could not be followed further");
    return 0;
}

static int print_list(FILE *out, const struct profile *heap, const struct leak *leaks, size_t count,
                      const struct report_options *o)
{
    size_t top = o->all ? count : o->top ? o->top : LEAKS_TOP, shown = count < top ? count : top;
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    double rest = 0;
    char text[UNITS_LEN];
    int err = frames ? 0 : -ENOMEM;
    for (size_t i = 0; i < shown && err == 0; i++) {
        print_head(out, heap, i + 1, &leaks[i], o);
        err = print_stack(out, heap, leaks[i].stack, frames, o);
    }
    for (size_t i = shown; i < count; i++)
        rest += leaks[i].sum.live_bytes;
    if (err == 0 && shown < count) {
        fputc('\n', out);
        report_dim(out, o->colour, "%zu more stack%s with %s%s", count - shown,
                   count - shown == 1 ? "" : "s", figure_bytes(text, rest),
                   o->top ? "" : ": --all");
    }
    free(frames);
    return err;
}

int heap_print_leaks(FILE *out, const struct profile *heap, const struct report_options *o)
{
    struct leak *leaks = calloc(heap->rec.stack_count + 1, sizeof(*leaks));
    size_t count = 0;
    if (!leaks)
        return -ENOMEM;
    for (uint32_t i = 0; i < heap->rec.stack_count; i++)
        if (heap->stacks[i].pcs && heap->rec.stacks[i].sum.live_bytes > 0)
            leaks[count++] = (struct leak){.sum = heap->rec.stacks[i].sum, .stack = i, .stacks = 1};
    int64_t left = merge(heap, leaks, count);
    if (left < 0) {
        free(leaks);
        return (int)left;
    }
    count = (size_t)left;
    if (count)
        qsort(leaks, count, sizeof(*leaks), compare);
    report_heading(out, o->colour,
                   heap->rec.end == RECORDING_RUNNING ? "Not freed so far, by stack"
                                                      : "Not freed at the end, by stack");
    if (count == 0)
        fputs("no samples\n", out);
    int err = print_list(out, heap, leaks, count, o);
    free(leaks);
    return err;
}
