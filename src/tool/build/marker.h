/* Line markers of a preprocessed text: `# LINE "FILE" FLAGS`. */
#ifndef PIANO_TOOL_BUILD_MARKER_H
#define PIANO_TOOL_BUILD_MARKER_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/selection.h"

/* The values of flags. */
enum { MARKER_BEGINS = '1', MARKER_RETURNS = '2', MARKER_SYSTEM = '3' };

struct marker {
    const char *file; /* not NUL-terminated */
    size_t len;
    char *flags; /* up to the end of the line */
    size_t flag_len;
};

/* Is LINE a marker? Then fills M. */
bool marker_parse(char *line, size_t len, struct marker *m);
/* The place of FLAG, or NULL. */
char *marker_flag(const struct marker *m, char flag);
/* Is its file below the root or the mirror of S, or named by a relative path? */
bool marker_is_of_project(const struct marker *m, const struct selection *s);

#endif
