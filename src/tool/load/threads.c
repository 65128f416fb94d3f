/* Threads of a run by number, which need not be dense: a map while the lines are read, sorted
 * afterwards. */
#include "tool/load/reader.h"

#include <stdlib.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

struct run_thread *threads_get(struct reader *r, uint32_t number)
{
    struct run *run = r->run;
    uint32_t at = map_find(&r->threads, number);
    if (at == MAP_NONE) {
        at = (uint32_t)run->thread_count;
        if (VEC_DOUBLE(run->threads, run->thread_count) != 0 ||
            map_put(&r->threads, number, at) != 0)
            return NULL;
        run->threads[run->thread_count++] = (struct run_thread){
            .number = number, .end_ns = -1, .parent_fn = RUN_NO_FN, .runq_ns = -1};
    }
    return &run->threads[at];
}

const struct run_thread *run_thread_find(const struct run *run, uint32_t number)
{
    if (run->thread_count == 0)
        return NULL;
    return bsearch(&number, run->threads, run->thread_count, sizeof(*run->threads), order_u32);
}

void threads_sort(struct run *run)
{
    if (run->thread_count)
        qsort(run->threads, run->thread_count, sizeof(*run->threads), order_u32);
}

/* Adds a thread of RUN. MOSTLY: only threads that were blocked for at most half of the time. */
static void add_busy(const struct run_thread *t, bool mostly, int64_t *runq_ns, int64_t *of_ns)
{
    if (t->cpu_wall_ns <= 0 || t->runq_ns < 0)
        return;
    if (mostly && saturating_add(t->cpu_ns, t->runq_ns) < t->cpu_wall_ns / 2)
        return;
    *runq_ns = saturating_add(*runq_ns, t->runq_ns);
    *of_ns = saturating_add(*of_ns, t->cpu_wall_ns);
}

bool run_busy(const struct run *run, int64_t *runq_ns, int64_t *of_ns)
{
    *runq_ns = *of_ns = 0;
    for (size_t i = 0; i < run->thread_count; i++)
        add_busy(&run->threads[i], true, runq_ns, of_ns);
    bool mostly = *of_ns > 0;
    for (size_t i = 0; !mostly && i < run->thread_count; i++)
        add_busy(&run->threads[i], false, runq_ns, of_ns);
    return *of_ns > 0;
}

bool run_knows_runq(const struct run *run)
{
    bool some = false, all = true;
    for (size_t i = 0; i < run->thread_count; i++) {
        const struct run_thread *t = &run->threads[i];
        some |= t->cpu_wall_ns > 0;
        all &= t->cpu_wall_ns <= 0 || t->runq_ns >= 0;
    }
    return some && all;
}
