/* Filters of system calls (seccomp) of a process that is to be attached to. */
#ifndef PIANO_TOOL_ATTACH_FILTER_H
#define PIANO_TOOL_ATTACH_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/attach/proc.h"

/* Do the filters of the stopped thread TID allow what attaching needs? Otherwise explains which
 * call they refuse. */
bool filter_allows(pid_t pid, pid_t tid, struct attach_failure *f);

/* What the filter of COUNT instructions returns for a call; for tests. */
uint32_t filter_run(const struct sock_filter *code, size_t count, long number,
                    const uint64_t arguments[6]);

#endif
