/* Starts the program to record, and handles the signals of the tool while it runs. */
#ifndef PIANO_TOOL_RECORD_LAUNCH_H
#define PIANO_TOOL_RECORD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tool/record/destination.h"
#include "tool/record/record.h"

/* The signals that the tool waits for, and the previous signal state. */
struct launch_signals {
    sigset_t awaited;
    bool ignores_int; /* SIGINT was ignored at our start */
    sigset_t old_mask;
    struct sigaction old_child, old_size, old_pipe;
};

void launch_take_signals(struct launch_signals *s);
void launch_give_signals_back(const struct launch_signals *s);

/* What to run. */
struct launch_plan {
    const struct record *record;
    const char *image;   /* the file */
    const char *library; /* preloaded; NULL: none, and the environment is unchanged */
    const struct destination *output;
    const struct launch_signals *signals;      /* restored for the program */
    void (*before_exec)(void *ctx, pid_t pid); /* the process exists and waits; may be NULL */
    void *ctx;
};

/* Starts the program. Returns 0 and *PID, or negative errno. */
int launch(const struct launch_plan *plan, pid_t *pid);

#endif
