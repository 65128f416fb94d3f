/* Samples a program from outside, with the kernel's perf events. */
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
    PERF_STACK = 16 * 1024,       /* bytes of the stack in a sample */
    PERF_SWITCH_STACK = 8 * 1024, /* the same when a thread leaves its CPU */
    PERF_SHORT_STACK = 4 * 1024,  /* the same if threads leave their CPUs often */
};

/* What is requested and, after `perf_probe`, what is available. */
struct perf_wish {
    unsigned hz;
    bool kernel_chain; /* with the kernel's frames */
    enum piano__cpu_source source;
    bool without_kernel;   /* no samples inside the kernel allowed */
    bool without_switches; /* no stacks of threads that leave their CPU, only the time */
    bool by_cpu;           /* whatever runs on a CPU is sampled, not each thread by itself */
    double ns_per_cycle;   /* for PIANO_CPU_CYCLES */
};

/* One CPU. Samples and other records are in one ring, which may also have samples of other
 * programs (`by_cpu`). The stacks of threads that leave the CPU are
 * in another, so that they cannot displace other records. */
struct perf_cpu {
    int cpu;
    struct perf_ring samples;
    struct perf_ring switches;
    int samples_fd; /* the event that owns the ring */
    int switches_fd;
};

struct perf_fds {
    int *list;
    size_t count, capacity;
};

struct perf {
    struct perf_wish wish;
    bool on_exec; /* starts with the next exec of the process */
    struct perf_cpu *cpus;
    size_t cpu_count;
    struct perf_fds samples; /* of CPUs, then of threads, with all other records */
    size_t cpu_fds;          /* how many of them sample CPUs */
    /* Of threads that leave their CPUs: with PERF_SWITCH_STACK, with PERF_SHORT_STACK. */
    struct perf_fds long_stacks, short_stacks;
    bool without_short; /* there are not enough descriptors */
    bool is_short;      /* SHORT_STACKS are on, and LONG_STACKS off */
};

/* Finds out what is available by trying it on this process. Returns 0, or negative errno if nothing
 * is. */
int perf_probe(struct perf_wish *wish);
/* Explains an ERR of the above and what to do about it, in one line each, static. */
const char *perf_why(int err, const char **hint);

/* kernel.perf_event_paranoid; also -1 when it cannot be read. Above 1, users may not sample the
 * kernel. */
int perf_paranoid(void);
#define PERF_CURE "sudo sysctl kernel.perf_event_paranoid=1"

/* Opens rings for the CPUs of MASK, and events of thread TID on each. ON_EXEC: the thread's events
 * start with its next exec. Returns 0 or negative errno. */
int perf_open(struct perf *p, const struct perf_wish *wish, const cpu_set_t *mask, pid_t tid,
              bool on_exec);
/* Adds a thread. */
int perf_add(struct perf *p, pid_t tid);
/* Stacks of threads that leave their CPUs are short from now on, or long again. */
void perf_shorten(struct perf *p, bool is_short);
void perf_close(struct perf *p);

/* Passes every record made before UNTIL (CLOCK_MONOTONIC, ns) to TAKE, in order of time. IS_SWITCH:
 * it is from the ring for switches. */
void perf_drain(struct perf *p, uint64_t until,
                void (*take)(void *ctx, const struct perf_event *e, bool is_switch), void *ctx);

#endif
