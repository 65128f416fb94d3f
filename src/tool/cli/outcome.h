/* How a command ends that could not do its work: what is said, and the exit status. */
#ifndef PIANO_TOOL_CLI_OUTCOME_H
#define PIANO_TOOL_CLI_OUTCOME_H

#include "tool/load/run.h"

/* Reading came to ERR, a negative errno, for the reason ERROR gives, if it gives one. */
int outcome_failed(int err, const struct run_error *error);

/* The recording PATH has no WHAT ("CPU samples"). */
int outcome_not_recorded(const char *path, const char *what, const char *hint);

/* Writing to stdout came to ERR; WHAT is what was written ("the report"). A reader that went away is no failure here: `main`
 * looks at stdout in the end. */
int outcome_written(const char *what, int err);

#endif
