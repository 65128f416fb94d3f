/* Sampling a program from outside, by the kernel's perf events. */
#ifndef PIANO_TOOL_RECORD_PERF_H
#define PIANO_TOOL_RECORD_PERF_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/recording.h"
#include "tool/record/perf_event.h"
#include "tool/record/perf_ring.h"

enum {
    PERF_STACK = 16 * 1024,       /* bytes of the stack that come with a sample */
    PERF_SWITCH_STACK = 8 * 1024, /* and when a thread leaves its CPU */
};

/* What is asked for, and after `perf_probe` what can be had. */
struct perf_wish {
    unsigned hz;
    bool kernel_chain; /* frames of the kernel too */
    enum piano__cpu_source source;
    bool without_kernel;   /* samples while the kernel works for the program are refused */
    bool without_switches; /* where a thread leaves its CPU cannot be seen, only that it does */
    double ns_per_cycle;   /* of PIANO_CPU_CYCLES */
};

/* One CPU: samples and everything else in one ring; the stacks of threads that leave it in another, where they can
 * fill nothing up but their own. */
struct perf_cpu {
    int cpu;
    struct perf_ring samples;
    struct perf_ring switches;
    int samples_fd; /* the event whose ring it is */
    int switches_fd;
};

struct perf {
    struct perf_wish wish;
    bool on_exec; /* begins with the next exec of the process */
    struct perf_cpu *cpus;
    size_t cpu_count;
    int *fds; /* all */
    size_t fd_count, fd_capacity;
};

/* Finds out what can be had here, trying it on this process. 0, or negative errno: nothing can. */
int perf_probe(struct perf_wish *wish);
/* What ERR of the above means, and what to do: both one line, static. */
const char *perf_why(int err, const char **hint);

/* kernel.perf_event_paranoid; -1 too when it cannot be read. Above 1 a user may not look into the kernel. */
int perf_paranoid(void);
#define PERF_CURE "sudo sysctl kernel.perf_event_paranoid=1"

/* Opens rings for the CPUs of MASK, and events of thread TID on each. 0 or negative errno. */
int perf_open(struct perf *p, const struct perf_wish *wish, const cpu_set_t *mask, pid_t tid,
              bool on_exec);
/* One more thread. */
int perf_add(struct perf *p, pid_t tid);
void perf_close(struct perf *p);

/* Hands every record made before UNTIL (CLOCK_MONOTONIC, ns) to TAKE, in order of time. IS_SWITCH: it is of the
 * second ring. */
void perf_drain(struct perf *p, uint64_t until,
                void (*take)(void *ctx, const struct perf_event *e, bool is_switch), void *ctx);

#endif
