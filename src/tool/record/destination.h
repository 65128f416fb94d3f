/* The path of the recording. */
#ifndef PIANO_TOOL_RECORD_DESTINATION_H
#define PIANO_TOOL_RECORD_DESTINATION_H

#include <sys/types.h>

struct destination {
    char *before; /* the path, or the part before the process id */
    int named;    /* by the user: `before` is the whole path */
};

/* FILE is from the user; NULL: a file in the runs directory, which is created if needed. Checks
 * that a recording can be created there. Returns EXIT_DONE, or EXIT_FAILED after printing the
 * error. */
int destination_prepare(struct destination *o, const char *file);
void destination_release(struct destination *o);

/* The absolute path for the program with process id PID; malloc'd. */
char *destination_path(const struct destination *o, pid_t pid);

#endif
