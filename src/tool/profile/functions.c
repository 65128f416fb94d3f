/* Figures of the functions of a run.
 *
 * Self time is wall time. A function that waits for events, a lock or a timer has much self time
 * but uses no CPU. On a busy machine every function has more self time than it needs. So if
 * waiting matters, functions are ranked by self time on the CPU, and the wait has its own
 * column. Waiting matters if it is a tenth of a function's self time and a hundredth of the
 * total.
 *
 * Functions of the same name are distinguished by their place, or by number if the file has no
 * places. Terminal escapes in names are made visible. */
#include "tool/profile/functions.h"

#include <stdlib.h>
#include <string.h>

#include "tool/load/estimates.h"
#include "tool/util/say.h"

enum {
    OWN_PART = 10,
    ALL_PART = 100,
    BUSY_PERCENT = 10,
    BUSY_NS = 1000000,
    SAMPLED_CALLS = 64,
    SAMPLED_PART = 64
};

int64_t tally_self_cpu(const struct tally *sum)
{
    return sum->self_ns > sum->wait_ns ? sum->self_ns - sum->wait_ns : 0;
}

bool tally_has_wait(const struct tally *sum, int64_t self_sum)
{
    return sum->wait_ns > sum->self_ns / OWN_PART && sum->wait_ns > self_sum / ALL_PART;
}

bool tally_waits(const struct tally *sum)
{
    int64_t blocked = sum->wait_ns - sum->runq_ns;
    int64_t rest = sum->self_ns > sum->runq_ns ? sum->self_ns - sum->runq_ns : 0;
    return blocked > rest / 2 && blocked > sum->self_ns / OWN_PART;
}

double run_busy_percent(const struct run *run)
{
    int64_t runq_ns, of_ns;
    if (!run_busy(run, &runq_ns, &of_ns) || runq_ns < BUSY_NS || of_ns <= 0)
        return 0;
    double percent = (double)runq_ns / (double)of_ns * 100;
    return percent > BUSY_PERCENT ? percent : 0;
}

bool run_is_sampled(const struct run *run, uint32_t fn, const struct tally *sum)
{
    const struct tally *all = &run->fns[fn].sum;
    return sum->timed < sum->calls && all->calls >= SAMPLED_CALLS &&
           all->calls - all->timed > all->calls / SAMPLED_PART;
}

bool run_is_estimated(const struct run *run, uint32_t fn, const struct tally *sum)
{
    return run_is_sampled(run, fn, sum) || (sum->self_ns >= 0 && estimates_matter(sum));
}

char *run_fn_name(const struct run *run, uint32_t fn)
{
    const struct run_fn *f = &run->fns[fn];
    size_t size = strlen(f->name) * 8 + 1;
    char *safe = malloc(size);
    struct buf b = {0};
    if (!safe)
        return NULL;
    buf_puts(&b, say_safe(safe, size, f->name));
    free(safe);
    if (f->namesake && f->place && *f->place) {
        char place[512];
        buf_printf(&b, " (%s)", say_safe(place, sizeof(place), f->place));
    } else if (f->namesake) {
        buf_printf(&b, " #%u", f->namesake);
    }
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
