/* What is known of estimates beyond what their samples say, and how far they can be trusted.
 *
 * A sampled function's self time is an estimate, and so is the self time of the function that calls it: what
 * one has too much the other has too little. `self_var` of a tally is the variance of that. */
#ifndef PIANO_TOOL_LOAD_ESTIMATES_H
#define PIANO_TOOL_LOAD_ESTIMATES_H

#include <stdbool.h>

#include "tool/load/run.h"

/* Makes the figures of one line agree with each other and with what the watcher saw in it. */
void estimates_settle(struct run_scratch *line);
/* The same for the sums over all lines, each of them settled: there are more looks then. */
void estimates_settle_run(struct run_scratch *all);

/* Moves waits to where the time that was waited has moved. */
void waits_settle(struct run_scratch *all);
/* LINE is a frame of WALL_NS, off the CPU for OFF_NS, RUNQ_NS of these waiting for a CPU (-1: not known). */
void waits_settle_frame(struct run_scratch *line, int64_t wall_ns, int64_t off_ns, int64_t runq_ns);

/* Whether SUM's self time depends on estimates by more than 3 %. */
bool estimates_matter(const struct tally *sum);
/* Half of the 95 % interval of SUM's self and total time, ns. */
int64_t estimates_self_half(const struct tally *sum);
int64_t estimates_total_half(const struct tally *sum);
/* The same of the self time, for comparing it with that of another run of the program: most of what may be wrong is so in both. */
int64_t estimates_change_half(const struct tally *sum);

#endif
