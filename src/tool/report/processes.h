/* The table by process of a recording of several processes. */
#ifndef PIANO_TOOL_REPORT_PROCESSES_H
#define PIANO_TOOL_REPORT_PROCESSES_H

#include "tool/profile/processes.h"
#include "tool/report/report.h"

/* Prints the table of the processes of PROFILE, or nothing if there is only one. P may be NULL. 0 or
 * negative errno. */
int processes_print(FILE *out, const struct profile *profile, const struct polls *p,
                    const struct report_options *o);
/* The member "processes" on a line of its own. */
void processes_put(struct json_writer *w, const struct profile *profile, const struct polls *p);

#endif
