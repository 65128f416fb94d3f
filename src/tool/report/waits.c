/* Functions that wait: how a table is ranked, and the notice about a busy machine. */
#include "tool/report/report.h"

#include <stdlib.h>

#include "tool/util/order.h"
#include "tool/util/say.h"

/* By calls, then in the order of the file. */
static int compare_rest(const struct report_row *x, const struct report_row *y)
{
    return ORDER(y->sum.calls, x->sum.calls) ?: ORDER(x->fn, y->fn);
}

static int compare_wall(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;
    return ORDER(y->sum.self_ns, x->sum.self_ns) ?: compare_rest(x, y);
}

static int compare_cpu(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;
    return ORDER(tally_self_cpu(&y->sum), tally_self_cpu(&x->sum)) ?: compare_wall(a, b);
}

bool report_sort(struct report_row *rows, size_t count, enum report_rank rank)
{
    int64_t self_sum = 0;
    bool by_cpu = rank == REPORT_BY_CPU;
    for (size_t i = 0; i < count; i++)
        self_sum = saturating_add(self_sum, rows[i].sum.self_ns > 0 ? rows[i].sum.self_ns : 0);
    for (size_t i = 0; i < count && rank == REPORT_BY_EITHER; i++)
        by_cpu |= tally_has_wait(&rows[i].sum, self_sum);
    if (count)
        qsort(rows, count, sizeof(*rows), by_cpu ? compare_cpu : compare_wall);
    return by_cpu;
}

void report_notice_busy(const struct run *run, enum report_rank rank)
{
    double percent = run_busy_percent(run);
    if (percent > 0)
        say("the machine was busy: threads waited %.0f %% of the time for a CPU; wall times "
            "include that%s",
            percent > 100 ? 100.0 : percent,
            rank == REPORT_BY_CPU ? "" : " (--cpu-time ranks by CPU time)");
}
