/* The file that a command writes to with `-o`. */
#ifndef PIANO_TOOL_UTIL_OUTPUT_H
#define PIANO_TOOL_UTIL_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct output {
    const char *what; /* the content, for messages: "the page" */
    const char *path; /* NULL or `-`: stdout */
    mode_t mode;      /* of a new file, before the umask */
    FILE *out;
    char *temp; /* temporary name until renamed; NULL for stdout, pipes and devices */
};

/* May PATH be written? Refuses an existing file unless FORCE. Prints the reason and returns an exit
 * status. */
int output_check(const char *path, bool force);
/* Opens the output. The caller has set WHAT, PATH and MODE. Returns an exit status. */
int output_open(struct output *o);
/* Closes the output. ERR is the result of writing it (0 or negative errno). A regular file appears
 * under its name complete or not at all. Returns an exit status. */
int output_close(struct output *o, int err);

#endif
