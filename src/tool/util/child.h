/* Processes that the tool starts: steps of a build and the profiled program. They are not run by a
 * shell. */
#ifndef PIANO_TOOL_UTIL_CHILD_H
#define PIANO_TOOL_UTIL_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct child_plan {
    char *const *argv; /* argv[0] is searched in PATH unless it has a slash */
    char *const *envp;
    const char *dir;         /* working directory; NULL: ours */
    int in, out, err;        /* descriptors that become 0, 1, 2; -1: ours */
    double duration_s;       /* then SIGTERM; 0: never */
    double kill_s;           /* then SIGKILL, after SIGTERM; 0: never */
    bool whole_tree;         /* when interrupted, also end everything that it started */
    void (*tick)(void *ctx); /* called a few times a second while waiting; may be NULL */
    void *ctx;
};

struct child_result {
    pid_t pid;
    int status;       /* 0..255, or 128 + signal */
    bool interrupted; /* we were asked to stop (SIGINT, SIGTERM, SIGHUP) */
    bool timed_out;   /* the time limit expired and we ended it */
};

/* Starts the child and waits for its end. Passes signals that ask us to stop on to it, and always
 * waits for it. Returns 0 if it ran, else negative errno (-ENOENT: no such program). */
int child_run(const struct child_plan *plan, struct child_result *result);

/* Our environment with the `NAME=VALUE` strings of SET (NULL-terminated) replacing variables of the
 * same name. A string without `=` removes that variable. Returns one malloc'd array; the strings
 * are not copied. NULL when out of memory. */
char **child_env(char *const *set);

/* Is there an executable of this name in PATH? */
bool child_in_path(const char *name);

#endif
