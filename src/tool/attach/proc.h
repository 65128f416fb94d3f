/* What /proc says about a process that is to be attached to. */
#ifndef PIANO_TOOL_ATTACH_PROC_H
#define PIANO_TOOL_ATTACH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tool/attach/modules.h"

/* Why a process cannot be attached to, and what to do about it. */
struct attach_failure {
    char why[640];
    char hint[256]; /* empty: nothing */
    bool is_heap;   /* only its heap cannot be recorded */
};

/* Hints. */
#define ATTACH_WITHOUT_LIBRARY "--cpu, which loads nothing"
#define ATTACH_WITHOUT_HEAP "--events or --cpu, which leave its allocator alone"

void attach_fail(struct attach_failure *f, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The text after NAME in /proc/PID/status; false when it cannot be read. */
bool proc_status(pid_t pid, const char *name, char *text, size_t size);
long proc_number(pid_t pid, const char *name, long otherwise);
/* The threads, those that sleep first. Malloc'd; *COUNT of them. NULL: none, or no memory. */
pid_t *proc_threads(pid_t pid, size_t *count);

/* Is PID a process that can be attached to? Otherwise explains why not. */
bool proc_check(pid_t pid, struct attach_failure *f);
/* The same for what is loaded in it. WITH_HEAP: to record its heap. */
bool proc_check_modules(pid_t pid, struct modules *m, bool with_heap, struct attach_failure *f);
/* Was this process asked to stop, by a signal that it has blocked? Explains that. */
bool attach_is_over(struct attach_failure *f);
/* Explains the ERR of ptrace. */
void proc_explain(pid_t pid, int err, struct attach_failure *f);

#endif
