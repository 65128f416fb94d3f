/* Overview of a recording with several instruments: a few lines of each, and the command that
 * shows more. */
#ifndef PIANO_TOOL_REPORT_OVERVIEW_H
#define PIANO_TOOL_REPORT_OVERVIEW_H

#include <stdio.h>

#include "tool/load/recording.h"
#include "tool/report/report.h"

enum overview_instrument { OVERVIEW_HEAP = 1, OVERVIEW_CPU = 2, OVERVIEW_EVENTS = 4 };

/* The instruments of the recording, from its header; 0 if the header does not name them. */
unsigned overview_instruments(const struct recording *rec);

/* RUN is the name the user gave for the recording, or NULL. 0, or negative errno with ERROR
 * filled. */
int overview_report(FILE *out, const char *path, const char *run, bool json,
                    const struct report_options *o, struct run_error *error);

#endif
