/* The records the wrapper leaves for `piano build`: what became of each function, and what was
 * linked. */
#ifndef PIANO_TOOL_BUILD_UNIT_H
#define PIANO_TOOL_BUILD_UNIT_H

#include <stdbool.h>

struct analyse;

struct unit {
    const char *state;  /* the state directory */
    const char *source; /* relative to the project root, or absolute */
    const char *output; /* absolute */
    const char *note;   /* why it was compiled untouched, or what else there is to say; or NULL */
    const char *failed; /* not NULL: why nothing of what was chosen is instrumented after all */
    const struct analyse *functions; /* or NULL */
};

/* Each replaces its record of an earlier build at once. A record that cannot be written is no
 * reason to fail a build: the errors are for tests. 0 or negative errno. */
int unit_save(const struct unit *u);
int unit_save_link(const char *state, const char *output, bool shared);

#endif
