/* The reports of the polls of a recording. */
#ifndef PIANO_TOOL_REPORT_POLLS_H
#define PIANO_TOOL_REPORT_POLLS_H

#include "tool/profile/polls.h"
#include "tool/report/heap.h"
#include "tool/report/stretch.h"

int polls_report(FILE *out, struct polls *p, const struct report_options *o);
int polls_report_json(FILE *out, struct polls *p, const struct report_options *o);

#endif
