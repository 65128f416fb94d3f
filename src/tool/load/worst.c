/* The longest single call of each function, and its frame.
 *
 * While the file is read, a frame is identified by the offset of its line. Once the frames are
 * sorted, each is looked up among the few offsets that were kept. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/order.h"

void worst_see(struct worst *worst, const struct run_scratch *scratch, uint64_t at)
{
    for (size_t i = 0; i < scratch->count; i++) {
        const struct tally *sum = &scratch->entries[i].sum;
        struct worst *w = &worst[scratch->entries[i].fn];
        bool longer = !w->seen || sum->max_ns > w->ns || (sum->max_ns == w->ns && at < w->at);
        if (sum->has_max && longer)
            *w = (struct worst){true, sum->max_ns, at};
    }
}

void worst_join(struct worst *worst, const struct worst *more, size_t fns)
{
    for (size_t i = 0; i < fns; i++)
        if (more[i].seen && (!worst[i].seen || more[i].ns > worst[i].ns))
            worst[i] = more[i];
}

struct wanted {
    uint64_t at; /* first: the list is sorted by it */
    uint32_t fn;
};

/* Lists the functions whose longest call is in a frame, by the offset of the frame. */
static size_t list_wanted(const struct run *run, const struct worst *worst, struct wanted *list)
{
    size_t count = 0;
    for (uint32_t i = 0; i < run->fn_count; i++)
        if (run->fns[i].worst_ns >= 0 && worst[i].seen && worst[i].ns >= run->fns[i].sum.max_ns)
            list[count++] = (struct wanted){worst[i].at, i};
    if (count)
        qsort(list, count, sizeof(*list), order_u64);
    return count;
}

int worst_settle(struct run *run, const struct worst *worst)
{
    struct wanted *list = calloc(run->fn_count + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < run->fn_count; i++) {
        struct run_fn *f = &run->fns[i];
        bool known = f->sum.has_max && !f->sum.lacks_max && f->sum.max_ns >= 0;
        f->worst_ns = known ? f->sum.max_ns : -1;
        f->worst_frame = -1;
    }
    size_t count = worst ? list_wanted(run, worst, list) : 0;
    for (size_t i = 0; i < run->frame_count && count; i++) {
        size_t low = ORDER_BOUND(item, count, list[item].at < run->frames[i].at);
        for (; low < count && list[low].at == run->frames[i].at; low++)
            run->fns[list[low].fn].worst_frame = (int64_t)i;
    }
    free(list);
    return 0;
}
