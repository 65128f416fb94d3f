/* Threads of a run by number, which need not be dense: an open-addressing table while the lines are
 * read, sorted afterwards. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>

struct thread_map {
    uint32_t *slots; /* 1 + index; at most half full */
    size_t cap;
};

static uint32_t *thread_slot(const struct run *run, uint32_t *slots, size_t cap, uint32_t number)
{
    size_t k = (number * 0x9e3779b1u >> 3) & (cap - 1);
    while (slots[k] && run->threads[slots[k] - 1].number != number)
        k = (k + 1) & (cap - 1);
    return &slots[k];
}

static int thread_map_grow(struct reader *r)
{
    struct run *run = r->run;
    if (!r->threads)
        r->threads = calloc(1, sizeof(*r->threads));
    if (!r->threads)
        return -ENOMEM;
    size_t cap = r->threads->cap ? r->threads->cap * 2 : 64;
    uint32_t *slots = calloc(cap, sizeof(*slots));
    struct run_thread *more = realloc(run->threads, cap / 2 * sizeof(*more));
    if (more)
        run->threads = more;
    if (!slots || !more) {
        free(slots);
        return -ENOMEM;
    }
    for (size_t i = 0; i < run->thread_count; i++)
        *thread_slot(run, slots, cap, run->threads[i].number) = (uint32_t)i + 1;
    free(r->threads->slots);
    *r->threads = (struct thread_map){slots, cap};
    return 0;
}

struct run_thread *threads_get(struct reader *r, uint32_t number)
{
    struct run *run = r->run;
    if (!r->threads || (run->thread_count + 1) * 2 > r->threads->cap)
        if (thread_map_grow(r))
            return NULL;
    uint32_t *slot = thread_slot(run, r->threads->slots, r->threads->cap, number);
    if (!*slot) {
        *slot = (uint32_t)++run->thread_count;
        run->threads[*slot - 1] = (struct run_thread){
            .number = number, .end_ns = -1, .parent_fn = RUN_NO_FN, .runq_ns = -1};
    }
    return &run->threads[*slot - 1];
}

static int compare_threads(const void *a, const void *b)
{
    uint32_t x = ((const struct run_thread *)a)->number, y = ((const struct run_thread *)b)->number;
    return (x > y) - (x < y);
}

const struct run_thread *run_thread_find(const struct run *run, uint32_t number)
{
    struct run_thread key = {.number = number};
    if (run->thread_count == 0)
        return NULL;
    return bsearch(&key, run->threads, run->thread_count, sizeof(key), compare_threads);
}

void threads_sort(struct run *run)
{
    if (run->thread_count)
        qsort(run->threads, run->thread_count, sizeof(*run->threads), compare_threads);
}

void threads_release(struct reader *r)
{
    if (r->threads)
        free(r->threads->slots);
    free(r->threads);
    r->threads = NULL;
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
