/* Finds what a thread ran on the CPU, where it left the CPU, and what it allocated and did not
 * free. Stacks of the same functions are merged, whatever the lines. */
#include "tool/profile/stretch.h"

#include <stdlib.h>

#include "tool/util/order.h"

struct found {
    struct stretch_stack sum;
    const char **functions; /* innermost first; strings are shared, so pointers can be compared */
    size_t depth;
};

static int compare_functions(const struct found *x, const struct found *y)
{
    int order = ORDER(x->sum.preempted, y->sum.preempted) ?: ORDER(x->depth, y->depth);
    for (size_t i = 0; order == 0 && i < x->depth; i++)
        order = ORDER((uintptr_t)x->functions[i], (uintptr_t)y->functions[i]);
    return order;
}

static int by_functions(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return compare_functions(x, y) ?: ORDER(x->sum.stack, y->sum.stack);
}

static int by_stack(const void *a, const void *b)
{
    const struct stretch_stack *x = a, *y = b;
    return ORDER(x->stack, y->stack) ?: ORDER(x->preempted, y->preempted);
}

static int by_weight(const void *a, const void *b)
{
    const struct stretch_stack *x = a, *y = b;
    return ORDER(y->ns, x->ns) ?: ORDER(y->bytes, x->bytes) ?: ORDER(y->samples, x->samples)
        ?: by_stack(a, b);
}

/* The samples of the thread that may be in SPAN: *FROM to *TO. Includes one earlier time off the
 * CPU, because the thread may have left the CPU before the span began (a park that ends while
 * the thread is still off the CPU). */
static void find_samples(const struct recording *rec, const struct companion_span *span,
                         unsigned kind, size_t *from, size_t *to)
{
    size_t end;
    *from = *to = recording_samples_of(rec, span->tid, span->begin_ns, &end);
    while (*to < end && rec->samples[*to].at_ns < span->end_ns)
        ++*to;
    if (kind != PIANO_SAMPLE_OFF)
        return;
    while (*from > 0 && rec->samples[*from - 1].tid == span->tid &&
           rec->samples[*from - 1].kind != PIANO_SAMPLE_OFF)
        --*from;
    *from -= *from > 0 && rec->samples[*from - 1].tid == span->tid;
}

static size_t gather(const struct recording *rec, const struct companion_span *span,
                     uint64_t end_ns, unsigned kind, struct stretch_stack **out)
{
    size_t first, to, count = 0;
    find_samples(rec, span, kind, &first, &to);
    *out = to > first ? calloc(to - first, sizeof(**out)) : NULL;
    for (size_t i = first; *out && i < to; i++) {
        const struct recording_sample *s = &rec->samples[i];
        uint64_t since = s->at_ns > span->begin_ns ? s->at_ns : span->begin_ns;
        uint64_t until = s->value ? s->at_ns + s->value : end_ns;
        until = until < span->end_ns ? until : span->end_ns;
        if (s->kind != kind || (kind == PIANO_SAMPLE_CPU && s->at_ns < span->begin_ns) ||
            (kind == PIANO_SAMPLE_OFF && until <= since))
            continue;
        (*out)[count++] =
            (struct stretch_stack){.stack = s->stack,
                                   .samples = 1,
                                   .ns = kind == PIANO_SAMPLE_CPU ? s->value : until - since,
                                   .preempted = (s->flags & PIANO_SAMPLE_PREEMPTED) != 0};
    }
    return count;
}

static void add(struct stretch_stack *to, const struct stretch_stack *more)
{
    to->samples += more->samples;
    to->ns += more->ns;
    to->bytes += more->bytes;
    to->objects += more->objects;
}

static size_t merge_equal(struct stretch_stack *list, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof(*list), by_stack);
    for (size_t i = 0; i < count; i++) {
        if (kept && by_stack(&list[kept - 1], &list[i]) == 0) {
            add(&list[kept - 1], &list[i]);
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static bool find_functions(struct profile *profile, struct found *f,
                           const struct symbol_frame **frames)
{
    if (profile_name_stack(profile, f->sum.stack) != 0)
        return false;
    f->depth = profile_frames(profile, f->sum.stack, frames);
    f->functions = calloc(f->depth, sizeof(*f->functions));
    for (size_t i = 0; f->functions && i < f->depth; i++)
        f->functions[i] = frames[i]->function;
    return f->functions != NULL;
}

static size_t merge_named(struct profile *profile, struct stretch_stack *list, size_t count)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct found *found = calloc(count + 1, sizeof(*found));
    bool fine = frames && found;
    size_t kept = 0, done = 0;
    for (; fine && done < count; done++) {
        found[done].sum = list[done];
        fine = find_functions(profile, &found[done], frames);
    }
    if (fine && count)
        qsort(found, count, sizeof(*found), by_functions);
    for (size_t i = 0; fine && i < count; i++) {
        if (kept && i && compare_functions(&found[i - 1], &found[i]) == 0) {
            add(&list[kept - 1], &found[i].sum);
        } else {
            list[kept++] = found[i].sum;
        }
    }
    for (size_t i = 0; found && i < count; i++)
        free(found[i].functions);
    free(found);
    free(frames);
    return fine ? kept : count;
}

static struct stretch_stack *merge(struct profile *profile, struct stretch_stack *list,
                                   size_t *count)
{
    if (!list)
        return NULL;
    *count = merge_equal(list, *count);
    *count = merge_named(profile, list, *count);
    if (*count)
        qsort(list, *count, sizeof(*list), by_weight);
    return list;
}

struct stretch_stack *stretch_stacks(struct profile *profile, const struct companion_span *span,
                                     uint64_t end_ns, unsigned kind, size_t *count)
{
    struct stretch_stack *list = NULL;
    *count = gather(&profile->rec, span, end_ns, kind, &list);
    return merge(profile, list, count);
}

struct stretch_stack *stretch_blocks(struct profile *profile, const struct companion_span *span,
                                     const struct recording_block *blocks, size_t block_count,
                                     size_t *count)
{
    size_t from = recording_block_bound(blocks, block_count, span->tid, span->begin_ns);
    size_t to = recording_block_bound(blocks, block_count, span->tid, span->end_ns);
    struct stretch_stack *list = to > from ? calloc(to - from, sizeof(*list)) : NULL;
    *count = 0;
    for (size_t i = from; list && i < to; i++)
        list[(*count)++] = (struct stretch_stack){.stack = blocks[i].stack,
                                                  .samples = 1,
                                                  .bytes = blocks[i].bytes,
                                                  .objects = blocks[i].objects};
    return merge(profile, list, count);
}
