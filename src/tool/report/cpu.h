/* The reports of the CPU samples of a recording. */
#ifndef PIANO_TOOL_REPORT_CPU_H
#define PIANO_TOOL_REPORT_CPU_H

#include "tool/profile/cpu.h"
#include "tool/report/heap.h"

struct cpu_options {
    bool tree, threads, off; /* OFF: the tree shows time off the CPU */
};

int cpu_report(FILE *out, struct cpu *c, const struct cpu_options *h,
               const struct report_options *o);
int cpu_report_json(FILE *out, struct cpu *c, const struct cpu_options *h,
                    const struct report_options *o);

#endif
