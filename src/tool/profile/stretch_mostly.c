/* Samples of a loop that calls a hundred functions are in as many stacks. None of the heaviest
 * stacks shows what all have in common: the function that called them. Each function counts once
 * per stack, at its innermost frame. Of all functions on more than half of the samples, the one
 * nearest to the leaves is the most informative. */
#include "tool/profile/stretch.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/map.h"
#include "tool/util/vec.h"

struct hits {
    const char *function;
    uint64_t samples, distance; /* DISTANCE: from the leaf, summed over all samples */
    size_t seen;                /* the last stack counted for it, + 1 */
    size_t stack, frame;        /* the first one found */
};

struct table_of_hits {
    struct hits *list;
    size_t count, cap;
    struct map rows; /* by the pointer of the name */
};

static struct hits *hits_of(struct table_of_hits *t, const char *function)
{
    uint32_t at = map_find(&t->rows, (uintptr_t)function);
    if (at != MAP_NONE)
        return &t->list[at];
    if (VEC_ROOM(t->list, t->count, t->cap) != 0 ||
        map_put(&t->rows, (uintptr_t)function, (uint32_t)t->count) != 0)
        return NULL;
    t->list[t->count] = (struct hits){.function = function};
    return &t->list[t->count++];
}

static int count_stack(struct table_of_hits *table, const struct stretch_stack *s, size_t index,
                       const struct symbol_frame *const *frames, size_t depth)
{
    for (size_t i = 0; i < depth; i++) {
        if (stretch_is_passed(frames[i]))
            continue;
        struct hits *t = hits_of(table, frames[i]->function);
        if (!t)
            return -ENOMEM;
        if (t->seen == index + 1)
            continue;
        if (t->seen == 0) {
            t->stack = index;
            t->frame = i;
        }
        t->seen = index + 1;
        t->samples += s->samples;
        t->distance += s->samples * i;
    }
    return 0;
}

static bool is_inner(const struct hits *a, const struct hits *b)
{
    return (double)a->distance / (double)a->samples < (double)b->distance / (double)b->samples;
}

int stretch_mostly(struct stretch_mostly *m, const struct profile *profile,
                   const struct stretch_stack *list, size_t count,
                   const struct symbol_frame **frames)
{
    struct table_of_hits all = {.list = NULL};
    const struct hits *best = NULL;
    int err = 0;
    *m = (struct stretch_mostly){.function = NULL};
    for (size_t i = 0; i < count && err == 0; i++) {
        m->all += list[i].samples;
        err =
            count_stack(&all, &list[i], i, frames, profile_frames(profile, list[i].stack, frames));
    }
    for (size_t i = 0; i < all.count && err == 0; i++)
        if (all.list[i].samples > m->all / 2 && (!best || is_inner(&all.list[i], best)))
            best = &all.list[i];
    if (best)
        *m = (struct stretch_mostly){.function = best->function,
                                     .stack = list[best->stack].stack,
                                     .frame = best->frame,
                                     .samples = best->samples,
                                     .all = m->all};
    map_release(&all.rows);
    free(all.list);
    return err;
}
