/* Processes and threads that are sampled. */
#ifndef PIANO_TOOL_RECORD_TASKS_H
#define PIANO_TOOL_RECORD_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/unwind/space.h"

enum { TASK_NAME = 16, TASK_BUCKETS = 4096 };

struct process {
    struct process *next; /* in its bucket */
    uint32_t pid;
    size_t threads;
    struct space space;
};

struct thread {
    struct thread *next;
    uint32_t tid;
    struct process *process;
    char name[TASK_NAME];
    bool is_told; /* the recording knows the name */
    /* Since it left its CPU. */
    bool is_away;
    bool is_preempted;
    uint32_t cpu;
    uint64_t left_ns;
    uint32_t stack;    /* where it left, when that is known */
    uint32_t raw;      /* 1 + place of what it left on its stack, not walked yet; 0 none */
    uint64_t stack_ns; /* when either was taken; 0: neither was */
};

struct tasks {
    struct process *processes[TASK_BUCKETS];
    struct thread *threads[TASK_BUCKETS];
    uint32_t generations; /* the next to be drawn, see tool/unwind/space.h */
};

void tasks_init(struct tasks *t);
void tasks_release(struct tasks *t);

/* NULL when there is none, or for the second when out of memory. */
struct thread *tasks_find(const struct tasks *t, uint32_t tid);
struct thread *tasks_get(struct tasks *t, uint32_t pid, uint32_t tid);

/* A new process with a copy of the address space of PARENT, or a new thread of the same. */
struct thread *tasks_fork(struct tasks *t, uint32_t parent, uint32_t pid, uint32_t tid);
void tasks_name(struct thread *t, const char *name);
void tasks_exit(struct tasks *t, uint32_t tid);

#endif
