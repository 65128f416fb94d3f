/* The parts of commands that other commands use too: of `piano build` and `piano report`, `piano
 * profile`; of `piano record`, `piano top`. */
#ifndef PIANO_TOOL_CLI_REQUESTS_H
#define PIANO_TOOL_CLI_REQUESTS_H

#include "tool/build/driver.h"
#include "tool/cli/command.h"
#include "tool/record/record.h"
#include "tool/report/heap.h"
#include "tool/report/report.h"

/* What `piano report` is asked for. */
struct report_request {
    struct report_options options;
    struct heap_options heap_options;
    bool frames, threads, json, uncorrected, cpu_time, wall;
    bool heap, tree, leaks, growth, peak;
    int by; /* enum figure; < 0: not given */
    bool cpu, polls;
    struct heap_skip skip;
    struct range_asked range;
    int64_t budget_ns;
    const char *process; /* NULL: all */
    const char *run;
};
#define REPORT_DEFAULTS .heap_options = {.from = GROWTH_NOT_GIVEN, .to = GROWTH_NOT_GIVEN}, .by = -1

/* Check for contradicting flags of COMMAND and print a usage error. Return an exit status. */
int build_check(const char *command, const struct driver *d);
int report_check(const char *command, struct report_request *q);

enum { RECORD_USUAL_HZ = 99, RECORD_USUAL_RATE = 512 << 10 };
/* Readers of --heap and --cpu; the field is a struct record. */
flag_reader record_read_heap, record_read_cpu;
/* Checks for contradicting flags and sets the defaults of missing ones. Returns an exit status. */
int record_settle(struct record *r);

/* Prints the report. Returns an exit status. */
int report_show(struct report_request *q);

#endif
