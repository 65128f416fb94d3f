/* Where the recording will be. */
#ifndef PIANO_TOOL_RECORD_OUTPUT_H
#define PIANO_TOOL_RECORD_OUTPUT_H

#include <sys/types.h>

struct output {
    char *before; /* the path, or what stands in it before the process id */
    int named;    /* by the user: `before` is all of it */
};

/* FILE of the user, or NULL for one in the runs directory, which is made if need be. Tries whether a recording can be
 * made there; EXIT_DONE, or EXIT_FAILED when not, and then what is wrong was said. */
int output_prepare(struct output *o, const char *file);
void output_release(struct output *o);

/* The absolute path for the program with process id PID; malloc'd. */
char *output_path(const struct output *o, pid_t pid);

#endif
