/* The sampled processes and threads. */
#ifndef PIANO_TOOL_RECORD_TASKS_H
#define PIANO_TOOL_RECORD_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/unwind/space.h"

enum { TASK_NAME = 16, TASK_BUCKETS = 4096 };

struct process {
    struct process *next; /* in the same bucket */
    /* CPU time that samples of its threads represent beyond what those threads used. */
    uint64_t ahead_ns;
    uint64_t used_ns; /* CPU time of its threads, from the records of their switches */
    uint32_t pid;
    size_t threads;
    struct space space;
};

struct thread {
    struct thread *next;
    uint32_t tid;
    struct process *process;
    char name[TASK_NAME];
    bool is_told; /* the recording has its name */
    /* State since it left its CPU. */
    bool is_away;
    bool is_preempted;
    uint32_t cpu;
    uint64_t left_ns;
    uint32_t stack;    /* where it left; 0: unknown */
    uint32_t raw;      /* 1 + index of its copied stack, not yet walked; 0: none */
    uint64_t stack_ns; /* time of either; 0: neither */
    /* CPU time, if threads are sampled one by one. */
    uint64_t on_since_ns; /* it has run since then; 0: it does not run, or unknown */
    uint64_t used_ns;
    uint64_t sampled_ns;    /* what its samples represent */
    uint32_t sampled_stack; /* of the newest */
    bool is_sampled_whole;
};

struct tasks {
    struct process *processes[TASK_BUCKETS];
    struct thread *threads[TASK_BUCKETS];
    uint32_t generations; /* next generation, see tool/unwind/space.h */
};

void tasks_init(struct tasks *t);
void tasks_release(struct tasks *t);

/* NULL when there is none; `tasks_get` creates it and returns NULL only when out of memory. */
struct thread *tasks_find(const struct tasks *t, uint32_t tid);
struct thread *tasks_get(struct tasks *t, uint32_t pid, uint32_t tid);

/* Adds a process with a copy of the address space of PARENT, or, if PID is PARENT, a thread of
 * it. */
struct thread *tasks_fork(struct tasks *t, uint32_t parent, uint32_t pid, uint32_t tid);
void tasks_name(struct thread *t, const char *name);
void tasks_exit(struct tasks *t, uint32_t tid);

#endif
