/* A sorted array. Ranges may overlap: functions can be nested, and a file may claim anything.
 * `reach` of every range is the highest end of this and all earlier ranges, so that the search
 * knows when to stop going back. */
#include "tool/symbol/ranges.h"

#include <stdlib.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

/* Gives up on files with more than a thousand overlapping ranges. */
enum { STEPS_BACK = 1000 };

void ranges_add(struct ranges *r, uint64_t low, uint64_t high, uint32_t value)
{
    if (low >= high || r->failed)
        return;
    r->failed = VEC_ROOM(r->list, r->count, r->cap) != 0;
    if (r->failed)
        return;
    r->list[r->count++] = (struct range){.low = low, .high = high, .value = value};
}

static int by_start(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return ORDER(a->low, b->low) ?: ORDER(b->high, a->high) ?: ORDER(a->value, b->value);
}

void ranges_sort(struct ranges *r)
{
    uint64_t reach = 0;
    if (r->count)
        qsort(r->list, r->count, sizeof(*r->list), by_start);
    for (size_t i = 0; i < r->count; i++) {
        reach = r->list[i].high > reach ? r->list[i].high : reach;
        r->list[i].reach = reach;
    }
}

const struct range *ranges_find(const struct ranges *r, uint64_t addr)
{
    size_t from = ORDER_BOUND(at, r->count, r->list[at].low <= addr);
    for (int steps = 0; from > 0 && steps < STEPS_BACK; steps++) {
        const struct range *range = &r->list[--from];
        if (range->high > addr)
            return range;
        if (range->reach <= addr)
            break;
    }
    return NULL;
}

void ranges_release(struct ranges *r)
{
    free(r->list);
    *r = (struct ranges){0};
}
