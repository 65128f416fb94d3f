/* Starting the program that is recorded, and the signals of the tool while it runs. */
#ifndef PIANO_TOOL_RECORD_LAUNCH_H
#define PIANO_TOOL_RECORD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tool/record/output.h"
#include "tool/record/record.h"

/* What the tool waits for instead of being ended by it, and what was before. */
struct launch_signals {
    sigset_t awaited;
    bool ignores_int; /* SIGINT was ignored when we were started */
    sigset_t old_mask;
    struct sigaction old_child, old_size, old_pipe;
};

void launch_take_signals(struct launch_signals *s);
void launch_give_signals_back(const struct launch_signals *s);

/* What is to run. */
struct launch_plan {
    const struct record *record;
    const char *image; /* the file */
    const char
        *library; /* to be loaded into it; NULL: nothing is, and its environment is as ours */
    const struct output *output;
    const struct launch_signals *signals;      /* which it gets back as they were */
    void (*before_exec)(void *ctx, pid_t pid); /* it is there, and waits; may be NULL */
    void *ctx;
};

/* Starts it. 0 with *PID, or negative errno. */
int launch(const struct launch_plan *plan, pid_t *pid);

#endif
