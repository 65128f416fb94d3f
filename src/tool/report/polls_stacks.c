/* The stacks of one poll: what the thread was doing on the CPU in it, or where it left the CPU. Stacks of the same
 * functions are one, whatever the lines. */
#include "tool/report/polls.h"

#include <stdlib.h>
#include <string.h>

struct found {
    struct polls_stack sum;
    const char **functions; /* innermost first; strings are shared, so pointers tell them apart */
    size_t depth;
};

static int compare_functions(const struct found *x, const struct found *y)
{
    if (x->sum.preempted != y->sum.preempted)
        return x->sum.preempted ? 1 : -1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    for (size_t i = 0; i < x->depth; i++)
        if (x->functions[i] != y->functions[i])
            return (uintptr_t)x->functions[i] < (uintptr_t)y->functions[i] ? -1 : 1;
    return 0;
}

static int by_functions(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int order = compare_functions(x, y);
    return order ? order : (x->sum.stack > y->sum.stack) - (x->sum.stack < y->sum.stack);
}

static int by_stack(const void *a, const void *b)
{
    const struct polls_stack *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (int)x->preempted - (int)y->preempted;
}

static int by_weight(const void *a, const void *b)
{
    const struct polls_stack *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return by_stack(a, b);
}

/* Samples of KIND in [begin, end) of its thread, as they are; times off are cut to the poll. */
static size_t gather(const struct polls *p, const struct poll *poll, unsigned kind,
                     struct polls_stack **out)
{
    const struct recording *rec = p->rec;
    size_t end, count = 0;
    size_t from = recording_samples_of(rec, p->tracks[poll->track].tid, poll->begin_ns, &end), to;
    for (to = from; to < end && rec->samples[to].at_ns < poll->end_ns; to++)
        ;
    /* It may have gone off before the poll began: in a park that ends in the middle of being away. */
    size_t first = from;
    while (kind == PIANO_SAMPLE_OFF && first > 0 &&
           rec->samples[first - 1].tid == p->tracks[poll->track].tid &&
           rec->samples[first - 1].kind != PIANO_SAMPLE_OFF)
        first--;
    first -= kind == PIANO_SAMPLE_OFF && first > 0 &&
             rec->samples[first - 1].tid == p->tracks[poll->track].tid;
    *out = to > first ? calloc(to - first, sizeof(**out)) : NULL;
    for (size_t i = first; *out && i < to; i++) {
        const struct recording_sample *s = &rec->samples[i];
        uint64_t since = s->at_ns > poll->begin_ns ? s->at_ns : poll->begin_ns;
        uint64_t until = s->value ? s->at_ns + s->value : p->end_ns;
        until = until < poll->end_ns ? until : poll->end_ns;
        if (s->kind != kind || (kind == PIANO_SAMPLE_CPU && s->at_ns < poll->begin_ns) ||
            (kind == PIANO_SAMPLE_OFF && until <= since))
            continue;
        (*out)[count++] =
            (struct polls_stack){.stack = s->stack,
                                 .samples = 1,
                                 .ns = kind == PIANO_SAMPLE_CPU ? s->value : until - since,
                                 .preempted = (s->flags & PIANO_SAMPLE_PREEMPTED) != 0};
    }
    return count;
}

static size_t merge_equal(struct polls_stack *list, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof(*list), by_stack);
    for (size_t i = 0; i < count; i++) {
        if (kept && by_stack(&list[kept - 1], &list[i]) == 0) {
            list[kept - 1].samples += list[i].samples;
            list[kept - 1].ns += list[i].ns;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static bool find_functions(struct polls *p, struct found *f, const struct symbol_frame **frames)
{
    if (heap_name_stack(&p->named, f->sum.stack) != 0)
        return false;
    f->depth = heap_frames(&p->named, f->sum.stack, frames);
    f->functions = calloc(f->depth, sizeof(*f->functions));
    for (size_t i = 0; f->functions && i < f->depth; i++)
        f->functions[i] = frames[i]->function;
    return f->functions != NULL;
}

static size_t merge_named(struct polls *p, struct polls_stack *list, size_t count)
{
    const struct symbol_frame **frames = calloc(HEAP_MAX_FRAMES, sizeof(*frames));
    struct found *found = calloc(count + 1, sizeof(*found));
    bool fine = frames && found;
    size_t kept = 0, named = 0;
    for (; fine && named < count; named++) {
        found[named].sum = list[named];
        fine = find_functions(p, &found[named], frames);
    }
    if (fine && count)
        qsort(found, count, sizeof(*found), by_functions);
    for (size_t i = 0; fine && i < count; i++) {
        if (kept && i && compare_functions(&found[i - 1], &found[i]) == 0) {
            list[kept - 1].samples += found[i].sum.samples;
            list[kept - 1].ns += found[i].sum.ns;
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

struct polls_stack *polls_stacks(struct polls *p, const struct poll *poll, unsigned kind,
                                 size_t *count)
{
    struct polls_stack *list = NULL;
    *count = gather(p, poll, kind, &list);
    if (!list)
        return NULL;
    *count = merge_equal(list, *count);
    *count = merge_named(p, list, *count);
    if (*count)
        qsort(list, *count, sizeof(*list), by_weight);
    return list;
}
