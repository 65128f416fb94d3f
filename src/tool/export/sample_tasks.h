/* Which task polled when a sample was taken. */
#ifndef PIANO_TOOL_EXPORT_SAMPLE_TASKS_H
#define PIANO_TOOL_EXPORT_SAMPLE_TASKS_H

#include "tool/profile/polls.h"

/* Runs the pass over the events of P. *TASKS: for each sample of the recording, 1 + the group of
 * the innermost poll of a task or callback that was open then; 0: none. Malloc'd; NULL if there
 * are no events. 0 or negative errno. */
int sample_tasks(struct polls *p, uint32_t **tasks);

#endif
