/* Messages and exit status of a command that failed. */
#ifndef PIANO_TOOL_CLI_OUTCOME_H
#define PIANO_TOOL_CLI_OUTCOME_H

#include "tool/load/run.h"

/* Reading failed with ERR, a negative errno; ERROR may contain the reason. */
int outcome_failed(int err, const struct run_error *error);

/* The recording PATH has no WHAT ("CPU samples"). */
int outcome_not_recorded(const char *path, const char *what, const char *hint);

/* Reports the result ERR of writing WHAT ("the report") to stdout. A write error on stdout is not a
 * failure here: `main` checks stdout at the end. */
int outcome_written(const char *what, int err);

#endif
