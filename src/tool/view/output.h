/* The file a page is written to. */
#ifndef PIANO_TOOL_VIEW_OUTPUT_H
#define PIANO_TOOL_VIEW_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *out;
    char *temp; /* its name until it is whole; NULL: stdout, or something that is no regular file */
    const char *path; /* NULL: stdout */
};

/* May PATH be written to? A file that exists is refused unless FORCE. An exit status: why not is said. */
int output_check(const char *path, bool force);
/* Then this opens it; `-` is stdout. An exit status. */
int output_open(struct output *o, const char *path);
/* ERR is what writing came to. The file appears under its name whole, or not at all. An exit status. */
int output_close(struct output *o, int err);

#endif
