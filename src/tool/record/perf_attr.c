/* Describes to the kernel what each perf event counts and records. All request the same fields, so
 * one parser reads them all (perf_event.c). */
#include "tool/record/perf_attr.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int perf_attr_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
    long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static void fill(struct perf_event_attr *a, const struct perf_wish *w)
{
    *a = (struct perf_event_attr){.size = sizeof *a};
    a->sample_type = PERF_EVENT_SAMPLE | (w->kernel_chain ? PERF_SAMPLE_CALLCHAIN : 0);
    a->exclude_callchain_user = w->kernel_chain;
    a->sample_regs_user = perf_event_registers();
    a->sample_id_all = 1;
    a->use_clockid = 1;
    a->clockid = CLOCK_MONOTONIC;
    a->inherit = 1;
    a->disabled = 1;
    a->exclude_hv = 1;
    a->watermark = 1;
}

static void fill_source(struct perf_event_attr *a, const struct perf_wish *w)
{
    bool cycles = w->source == PIANO_CPU_CYCLES;
    a->type = cycles ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE;
    a->config = cycles ? (uint64_t)PERF_COUNT_HW_CPU_CYCLES : (uint64_t)PERF_COUNT_SW_CPU_CLOCK;
    a->freq = 1;
    a->sample_freq = w->hz;
    a->sample_stack_user = PERF_STACK;
    a->exclude_kernel = w->without_kernel;
}

void perf_attr_cpu(struct perf_event_attr *a, const struct perf_wish *w)
{
    fill(a, w);
    fill_source(a, w);
    a->inherit = 0;
    a->exclude_idle = w->source == PIANO_CPU_CLOCK; /* an idle CPU has no cycles */
}

void perf_attr_thread(struct perf_event_attr *a, const struct perf_wish *w)
{
    fill(a, w);
    a->type = PERF_TYPE_SOFTWARE;
    a->config = PERF_COUNT_SW_DUMMY;
    if (!w->by_cpu)
        fill_source(a, w);
    a->mmap = a->mmap2 = 1;
    a->comm = a->comm_exec = 1;
    a->task = 1;
    a->context_switch = 1;
}

void perf_attr_switches(struct perf_event_attr *a, const struct perf_wish *w, uint32_t stack)
{
    fill(a, w);
    a->type = PERF_TYPE_SOFTWARE;
    a->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    a->sample_period = 1;
    a->sample_stack_user = stack;
}
