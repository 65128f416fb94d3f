/* Starting the program that is recorded, and the signals of the tool while it runs. */
#ifndef PIANO_TOOL_RECORD_LAUNCH_H
#define PIANO_TOOL_RECORD_LAUNCH_H

#include <signal.h>
#include <sys/types.h>

#include "tool/record/output.h"
#include "tool/record/record.h"

/* What the tool waits for instead of being ended by it, and what was before. */
struct launch_signals {
    sigset_t awaited;
    sigset_t old_mask;
    struct sigaction old_child, old_size, old_pipe;
};

void launch_take_signals(struct launch_signals *s);
void launch_give_signals_back(const struct launch_signals *s);

/* Starts the file IMAGE with the words of R, with LIBRARY loaded into it, and with the signals as they were. 0 with
 * *PID, or negative errno. */
int launch(const struct record *r, const char *image, const char *library, const struct output *o,
           const struct launch_signals *s, pid_t *pid);

#endif
