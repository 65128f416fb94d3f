/* What is known of estimates beyond their samples, and how far they can be trusted.
 *
 * The self time of a sampled function is an estimate, and so is the self time of its caller: what
 * one has too much, the other has too little. `self_var` of a tally is the variance of that. */
#ifndef PIANO_TOOL_LOAD_ESTIMATES_H
#define PIANO_TOOL_LOAD_ESTIMATES_H

#include <stdbool.h>

#include "tool/load/run.h"

/* Makes the figures of one line consistent with each other and with what the watcher saw in it. */
void estimates_settle(struct run_scratch *line);
/* The same for the sums over all lines, each already settled. There are more looks then. */
void estimates_settle_run(struct run_scratch *all);

/* Moves waits to the functions that the waited time was moved to. */
void waits_settle(struct run_scratch *all);
/* LINE is a frame of WALL_NS, off the CPU for OFF_NS, RUNQ_NS of that in the run queue (-1:
 * unknown). */
void waits_settle_frame(struct run_scratch *line, int64_t wall_ns, int64_t off_ns, int64_t runq_ns);

/* Returns whether estimates make up more than 3 % of SUM's self time. */
bool estimates_matter(const struct tally *sum);
/* Half of the 95 % interval of SUM's self and total time, in ns. */
int64_t estimates_self_half(const struct tally *sum);
int64_t estimates_cpu_half(const struct tally *sum); /* of the self time without its waits */
int64_t estimates_total_half(const struct tally *sum);
/* Half of the interval of the self time for a comparison with another run of the same program: most
 * systematic errors are the same in both. WITHOUT_RUNQ: of the time without waits for a CPU.
 * REPEATED: both sides have several runs, whose differences show a part of these errors. */
int64_t estimates_change_half(const struct tally *sum, bool without_runq, bool repeated);

#endif
