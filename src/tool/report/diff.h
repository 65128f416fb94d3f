/* The report of a comparison of two groups of runs. */
#ifndef PIANO_TOOL_REPORT_DIFF_H
#define PIANO_TOOL_REPORT_DIFF_H

#include "tool/profile/diff.h"
#include "tool/report/report.h"

int diff_print(FILE *out, const struct diff *diff, const struct report_options *o);
int diff_print_json(FILE *out, const struct diff *diff, double fail_above);

#endif
