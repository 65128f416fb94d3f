/* The reports of a run, as tables or as JSON. The report goes to OUT; notices about the run
 * itself (missing or recovered data) go to stderr. */
#ifndef PIANO_TOOL_REPORT_REPORT_H
#define PIANO_TOOL_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tool/profile/functions.h"
#include "tool/util/json_writer.h"

/* What functions are ranked by: wall time, CPU time, or the more useful of both (CPU time if
 * functions wait). */
enum report_rank { REPORT_BY_EITHER, REPORT_BY_CPU, REPORT_BY_WALL };

struct report_options {
    enum report_rank rank;
    bool all;
    bool places;
    bool colour;
    size_t top;   /* 0: the default of the report */
    size_t width; /* 0: no limit */
};

enum { REPORT_TOP = 15 };

/* Each returns 0 or negative errno. */
int report_functions(FILE *out, const struct run *run, const struct report_options *o);
int report_functions_json(FILE *out, const struct run *run, const struct report_options *o);
int report_frames(FILE *out, const struct run *run, const struct report_options *o);
int report_frames_json(FILE *out, const struct run *run, const struct report_options *o);
int report_threads(FILE *out, const struct run *run, const struct report_options *o);
int report_threads_json(FILE *out, const struct run *run, const struct report_options *o);

/* Prints a notice if threads waited for a CPU for much of the time. */
void report_notice_busy(const struct run *run, enum report_rank rank);
/* ---- shared by the reports ---- */

/* One row of a table of functions. */
struct report_row {
    uint32_t fn;
    struct tally sum;
};

/* A table of ROWS (sorted by self time here). HEADING may be NULL. */
int report_rows(FILE *out, const struct run *run, struct report_row *rows, size_t count,
                bool percentiles, const struct report_options *o);
/* Sorts ROWS in the order of the table; returns whether by CPU time. */
bool report_sort(struct report_row *rows, size_t count, enum report_rank rank);
/* Formats a sum of times into TEXT of UNITS_LEN. A sum that is negative after the correction is
 * below the resolution and counts as 0. */
const char *report_time(char *text, int64_t ns);
void report_heading(FILE *out, bool colour, const char *text);
void report_dim(FILE *out, bool colour, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "N frames | avg | p99 | spikes", one line per kind of frame. */
void report_footer(FILE *out, const struct run *run, const struct report_options *o);

/* Members shared by JSON reports of runs, each on a line of its own: the reference time for spikes;
 * "run" and "dropped". */
void report_put_budget(struct json_writer *w, const struct run *run);
void report_put_run(struct json_writer *w, const struct run *run);
/* The members of a function with SUM, in a thread or a frame. */
void report_put_function(struct json_writer *w, const struct run *run, uint32_t fn,
                         const struct tally *sum);

#endif
