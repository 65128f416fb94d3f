/* Overview of a recording with several instruments: a few lines of each, and the command that
 * shows more. */
#ifndef PIANO_TOOL_REPORT_OVERVIEW_H
#define PIANO_TOOL_REPORT_OVERVIEW_H

#include <stdio.h>

#include "tool/profile/profile.h"
#include "tool/report/report.h"

/* P was peeked; this reads the rest if it needs it. RUN is the name the user gave for the recording,
 * or NULL. 0, or negative errno with ERROR filled. */
int overview_report(FILE *out, struct profile *p, const char *run, bool json,
                    const struct report_options *o, struct run_error *error);

#endif
