/* CPU samples of the recorded program and the places where its threads wait. The kernel takes them;
 * this module adds them to the recording. */
#ifndef PIANO_TOOL_RECORD_SAMPLER_H
#define PIANO_TOOL_RECORD_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/record/journal.h"
#include "tool/record/pace.h"
#include "tool/record/perf.h"
#include "tool/record/tasks.h"

enum {
    CPU_AWAY_NS = 100000, /* shorter absences are only counted */
    SAMPLER_ENDS = 1 << 16,
    CPU_RAWS = 512, /* stacks of threads that just left, not yet walked */
};

/* A process that has ended. */
struct sampler_end {
    uint32_t pid;
    uint64_t at_ns;   /* CLOCK_MONOTONIC */
    uint64_t used_ns; /* CPU time of its threads */
};

/* The stack of a thread when it left its CPU. */
struct cpu_raw {
    uint32_t tid; /* 0: free */
    struct unwind_regs regs;
    struct unwind_memory memory;
    uint64_t chain[PIANO_MAX_FRAMES / 2];
    size_t chain_count;
    unsigned char bytes[PERF_SWITCH_STACK];
};

struct sampler {
    struct perf_wish wish;
    struct perf perf;
    bool is_open;
    bool is_stopped; /* by sampler_stop: `tasks` are those of that time */
    bool is_owner;   /* the tool created the recording, not the program */
    struct tasks tasks;
    struct unwinder *unwinder;
    struct journal journal;
    struct cpu_raw *raws;
    struct sampler_end *ends; /* in order of time */
    size_t end_count;
    struct pace pace;     /* of context switches */
    uint64_t leaves;      /* context switches so far */
    bool has_lost_stacks; /* since the last drain: the rings for stacks were full */
    uint64_t away;        /* absences that were long enough for a sample */
    uint64_t away_blind;  /* those without a stack */
    uint64_t tid_unknown; /* records of threads that were dropped: out of memory */
};

/* Prepares HZ samples a second, with the kernel's frames if IS_KERNEL. `wish` then says what the
 * kernel allows. Returns 0, or negative errno, which `perf_why` explains. */
int sampler_init(struct sampler *c, unsigned hz, bool is_kernel);
void sampler_release(struct sampler *c);

/* A mapping that may hold code, as the kernel describes it. */
struct mapped {
    const char *path;
    uint64_t start, end, offset, inode;
};

/* Adds M to SPACE. For the parts of the sampler. */
void sampler_map(struct sampler *c, struct space *space, const struct mapped *m);

/* PID was forked and will call exec: samples it from the exec on. */
int sampler_await(struct sampler *c, pid_t pid);
/* PID is running: samples all its threads from now on. */
int sampler_attach(struct sampler *c, pid_t pid);

/* Processes the records up to a moment ago; IS_LAST: all records. */
void sampler_drain(struct sampler *c, bool is_last);
/* Processes all records and takes no more samples. */
void sampler_stop(struct sampler *c);
/* The end of process PID, if it was sampled and has ended; or NULL. */
const struct sampler_end *sampler_end_of(const struct sampler *c, uint32_t pid);
/* How long the next drain can wait, in seconds. */
double sampler_patience(const struct sampler *c);

#endif
