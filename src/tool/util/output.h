/* The file that a command writes to with `-o`. */
#ifndef PIANO_TOOL_UTIL_OUTPUT_H
#define PIANO_TOOL_UTIL_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct output {
    const char *what; /* is written, for messages: "the page" */
    const char *path; /* NULL or `-`: stdout */
    mode_t mode;      /* of a new file, before the umask */
    FILE *out;
    char *temp; /* its name until it is whole; NULL: stdout, or something that is no regular file */
};

/* May PATH be written to? A file that exists is refused unless FORCE. An exit status: why not is said. */
int output_check(const char *path, bool force);
/* Then this opens it: WHAT, PATH and MODE are given. An exit status. */
int output_open(struct output *o);
/* ERR is what writing came to. The file appears under its name whole, or not at all. An exit status. */
int output_close(struct output *o, int err);

#endif
