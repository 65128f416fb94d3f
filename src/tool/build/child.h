/* Processes the tool starts: a build's steps and the profiled program. No shell in between. */
#ifndef PIANO_TOOL_BUILD_CHILD_H
#define PIANO_TOOL_BUILD_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct child_plan {
    char *const *argv; /* argv[0] is searched in PATH unless it has a slash */
    char *const *envp;
    const char *dir;         /* working directory; NULL = ours */
    int in, out, err;        /* descriptors to become 0, 1, 2; -1 = ours */
    double duration_s;       /* after this SIGTERM; 0 = never */
    double kill_s;           /* and so much later SIGKILL; 0 = never */
    bool whole_tree;         /* when interrupted, nothing it has started is left running */
    void (*tick)(void *ctx); /* called a few times a second while waiting; may be NULL */
    void *ctx;
};

struct child_result {
    pid_t pid;
    int status;       /* 0..255, or 128 + signal */
    bool interrupted; /* we were asked to stop (SIGINT, SIGTERM, SIGHUP) meanwhile */
    bool timed_out;   /* the duration was over and we ended it */
};

/* Starts the child and waits for its end; signals that ask us to stop are passed on to it, and the
 * child is always waited for. 0 when it ran, else negative errno (-ENOENT: no such program). */
int child_run(const struct child_plan *plan, struct child_result *result);

/* Our environment with the `NAME=VALUE` strings of SET (ended by NULL) put in place of their
 * namesakes; a string without `=` takes that name away. One malloc'd array whose strings are not
 * copied. NULL when out of memory. */
char **child_env(char *const *set);

/* Does PATH hold an executable of this name? */
bool child_in_path(const char *name);

#endif
