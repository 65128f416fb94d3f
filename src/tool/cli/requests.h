/* The parts of `piano build` and `piano report` that `piano profile` uses too. */
#ifndef PIANO_TOOL_CLI_REQUESTS_H
#define PIANO_TOOL_CLI_REQUESTS_H

#include "tool/build/driver.h"
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
    const char *run;
};
#define REPORT_DEFAULTS .heap_options = {.from = GROWTH_NOT_GIVEN, .to = GROWTH_NOT_GIVEN}, .by = -1

/* Check for contradicting flags of COMMAND and print a usage error. Return an exit status. */
int build_check(const char *command, const struct driver *d);
int report_check(const char *command, struct report_request *q);

/* Prints the report. Returns an exit status. */
int report_show(struct report_request *q);

#endif
