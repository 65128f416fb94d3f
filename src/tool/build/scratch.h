/* Temporary files of one compiler wrapper, removed at its end, also when it is interrupted. */
#ifndef PIANO_TOOL_BUILD_SCRATCH_H
#define PIANO_TOOL_BUILD_SCRATCH_H

/* A path for a new file with this name, in its own directory below STATE/tmp. Names may repeat. The
 * string is valid until `scratch_release`. NULL on failure. */
const char *scratch_path(const char *state, const char *name);
/* Removes all these files. */
void scratch_release(void);

#endif
