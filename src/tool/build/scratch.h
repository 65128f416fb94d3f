/* Temporary files of one compiler wrapper, gone with it, also when it is interrupted. */
#ifndef PIANO_TOOL_BUILD_SCRATCH_H
#define PIANO_TOOL_BUILD_SCRATCH_H

/* A path for a new file of this name, in a directory of its own below STATE/tmp. Names may repeat.
 * The string lives until `scratch_release`. NULL when it could not be made. */
const char *scratch_path(const char *state, const char *name);
/* Removes all of them. */
void scratch_release(void);

#endif
