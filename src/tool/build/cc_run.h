/* Runs the real compiler. */
#ifndef PIANO_TOOL_BUILD_CC_RUN_H
#define PIANO_TOOL_BUILD_CC_RUN_H

#include "tool/util/buf.h"

enum { CC_KEEP_OUT = 1, CC_KEEP_ERR = 2 };

struct cc_run {
    int status; /* 0..255, or 128 + signal */
    struct buf out;
    struct buf err;
};

/* Runs ARGV to its end. Stores the output that KEEP names in R instead of showing it. Returns 0 or
 * negative errno; -EINTR when we were asked to stop. The caller releases R in any case. */
int cc_run_step(struct cc_run *r, char *const argv[], unsigned keep);
/* The same in the directory DIR; NULL: ours. */
int cc_run_step_in(struct cc_run *r, const char *dir, char *const argv[], unsigned keep);
void cc_run_release(struct cc_run *r);

/* Executes ARGV in place of this process. Returns only on failure: 127, after printing the
 * error. */
int cc_run_exec(char *const argv[]);

/* Removes the build's own variables and preloaded library from the environment, so that we start
 * the compiler and not ourselves again. */
void cc_run_clean_environment(void);

#endif
