/* The processes of a recording, with the figures of each. */
#ifndef PIANO_TOOL_PROFILE_PROCESSES_H
#define PIANO_TOOL_PROFILE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/profile/polls.h"

struct process_row {
    uint32_t pid;
    const char *name;                     /* not yet safe to show; NULL: unknown */
    const struct recording_process *file; /* NULL: it has only samples */
    uint64_t cpu_ns, cpu_samples, off_ns, preempted_ns;
    uint64_t polls, longest_ns, busy_ns;
};

struct processes {
    struct process_row *list; /* the busiest first */
    size_t count;
    size_t idle; /* the last of them: neither samples nor polls, and almost no memory */
    bool has_cpu, has_off;
};

/* P: the polls of the recording of PROFILE, with their longest; NULL: without polls. 0 or
 * -ENOMEM. */
int processes_make(struct processes *list, const struct profile *profile, const struct polls *p);
void processes_release(struct processes *list);
/* Whether REC has more than one process. */
bool processes_are_several(const struct recording *rec);

#endif
