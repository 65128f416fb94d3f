/* Functions that wait: how a table is ranked, and the notice about a busy machine.
 *
 * Self time is wall time. A function that waits for events, a lock or a timer has much self time
 * but uses no CPU. On a busy machine every function has more self time than it needs. So if
 * waiting matters, functions are ranked by self time on the CPU, and the wait has its own
 * column. Waiting matters if it is a tenth of a function's self time and a hundredth of the
 * total. */
#include "tool/report/report.h"

#include <stdlib.h>

#include "tool/util/say.h"

enum { OWN_PART = 10, ALL_PART = 100, BUSY_PERCENT = 10, BUSY_NS = 1000000 };

int64_t report_self_cpu(const struct tally *sum)
{
    return sum->self_ns > sum->wait_ns ? sum->self_ns - sum->wait_ns : 0;
}

bool report_has_wait(const struct tally *sum, int64_t self_sum)
{
    return sum->wait_ns > sum->self_ns / OWN_PART && sum->wait_ns > self_sum / ALL_PART;
}

bool report_waits(const struct tally *sum)
{
    int64_t blocked = sum->wait_ns - sum->runq_ns;
    int64_t rest = sum->self_ns > sum->runq_ns ? sum->self_ns - sum->runq_ns : 0;
    return blocked > rest / 2 && blocked > sum->self_ns / OWN_PART;
}

static int compare_int64(int64_t x, int64_t y)
{
    return (x < y) - (x > y);
}

/* By calls, then in the order of the file. */
static int compare_rest(const struct report_row *x, const struct report_row *y)
{
    int order = compare_int64(x->sum.calls, y->sum.calls);
    return order ? order : (x->fn > y->fn) - (x->fn < y->fn);
}

static int compare_wall(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;
    int order = compare_int64(x->sum.self_ns, y->sum.self_ns);
    return order ? order : compare_rest(x, y);
}

static int compare_cpu(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;
    int order = compare_int64(report_self_cpu(&x->sum), report_self_cpu(&y->sum));
    return order ? order : compare_wall(a, b);
}

bool report_sort(struct report_row *rows, size_t count, enum report_rank rank)
{
    int64_t self_sum = 0;
    bool by_cpu = rank == REPORT_BY_CPU;
    for (size_t i = 0; i < count; i++)
        self_sum = saturating_add(self_sum, rows[i].sum.self_ns > 0 ? rows[i].sum.self_ns : 0);
    for (size_t i = 0; i < count && rank == REPORT_BY_EITHER; i++)
        by_cpu |= report_has_wait(&rows[i].sum, self_sum);
    if (count)
        qsort(rows, count, sizeof(*rows), by_cpu ? compare_cpu : compare_wall);
    return by_cpu;
}

double report_busy_percent(const struct run *run)
{
    int64_t runq_ns, of_ns;
    if (!run_busy(run, &runq_ns, &of_ns) || runq_ns < BUSY_NS || of_ns <= 0)
        return 0;
    double percent = (double)runq_ns / (double)of_ns * 100;
    return percent > BUSY_PERCENT ? percent : 0;
}

void report_notice_busy(const struct run *run, enum report_rank rank)
{
    double percent = report_busy_percent(run);
    if (percent > 0)
        say("the machine was busy: threads waited %.0f %% of the time for a CPU; wall times "
            "include that%s",
            percent > 100 ? 100.0 : percent,
            rank == REPORT_BY_CPU ? "" : " (--cpu-time ranks by CPU time)");
}
