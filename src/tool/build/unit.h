/* The records that the wrapper leaves for `piano build`: the status of each function, and what was
 * linked. */
#ifndef PIANO_TOOL_BUILD_UNIT_H
#define PIANO_TOOL_BUILD_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct analyse;

struct unit {
    const char *state;               /* the state directory */
    const char *source;              /* relative to the project root, or absolute */
    const char *output;              /* absolute */
    const char *note;                /* why it was compiled untouched, or another remark; or NULL */
    const char *failed;              /* if not NULL: why no chosen function is instrumented */
    const char *words;               /* of a unit that was not searched, see search.h; or NULL */
    const struct analyse *functions; /* or NULL */
};

/* Each replaces its record of an earlier build atomically. A record that cannot be written must not
 * fail a build: only tests use the result, 0 or negative errno. */
int unit_save(const struct unit *u);
/* A hash of BYTES that is the same in all processes: for names of files. */
uint64_t unit_hash(const void *bytes, size_t len);
int unit_save_link(const char *state, const char *output, bool shared);

#endif
