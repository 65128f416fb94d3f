/* CPU samples of the recorded program, and where its threads wait: taken by the kernel, made into a part of the
 * recording here. */
#ifndef PIANO_TOOL_RECORD_CPU_H
#define PIANO_TOOL_RECORD_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/record/journal.h"
#include "tool/record/perf.h"
#include "tool/record/tasks.h"

enum {
    CPU_AWAY_NS = 100000, /* shorter absences are only counted */
    CPU_RAWS = 512,       /* stacks of threads that just left, not walked yet */
};

/* A stack as a thread left it. */
struct cpu_raw {
    uint32_t tid; /* 0: free */
    struct unwind_regs regs;
    struct unwind_memory memory;
    uint64_t chain[PIANO_MAX_FRAMES / 2];
    size_t chain_count;
    unsigned char bytes[PERF_SWITCH_STACK];
};

struct cpu {
    struct perf_wish wish;
    struct perf perf;
    bool is_open;
    bool is_owner; /* the recording was made here, and not by the program */
    struct tasks tasks;
    struct unwinder *unwinder;
    struct journal journal;
    struct cpu_raw *raws;
    bool is_busy;         /* more stacks of leaving threads came than their ring holds */
    uint64_t away;        /* absences that were long enough for a sample */
    uint64_t away_blind;  /* of them, without a stack */
    uint64_t tid_unknown; /* records of threads there was no memory for */
};

/* What can be had of HZ samples a second, with the kernel's frames if IS_KERNEL, is in the wish afterwards. 0, or
 * negative errno as `perf_why` explains it. */
int cpu_init(struct cpu *c, unsigned hz, bool is_kernel);
void cpu_release(struct cpu *c);

/* PID has been forked and will exec: it is sampled from there on. */
int cpu_await(struct cpu *c, pid_t pid);
/* PID runs: all its threads, from now on. */
int cpu_attach(struct cpu *c, pid_t pid);

/* Takes what there is up to a moment ago; or, IS_LAST, everything. */
void cpu_drain(struct cpu *c, bool is_last);
/* How long that can wait. */
double cpu_patience(const struct cpu *c);

#endif
