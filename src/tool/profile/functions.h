/* Figures of the functions of a run. */
#ifndef PIANO_TOOL_PROFILE_FUNCTIONS_H
#define PIANO_TOOL_PROFILE_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/load/run.h"

/* Whether the wait in SUM matters; whether it is most of its self time, not counting the wait
 * for a CPU. */
bool tally_has_wait(const struct tally *sum, int64_t self_sum);
bool tally_waits(const struct tally *sum);
/* The known part of the self time on the CPU. */
int64_t tally_self_cpu(const struct tally *sum);
/* Share of their time that threads waited for a CPU, in percent; 0 if it is small or unknown. */
double run_busy_percent(const struct run *run);
/* Whether SUM (of the run, a thread or a frame) of function FN is an estimate from a sample of
 * its calls. Calls that were open when the run ended are not timed either, but a few of them do
 * not count as sampling. */
bool run_is_sampled(const struct run *run, uint32_t fn, const struct tally *sum);
/* Whether SUM's self time is an estimate: from a sample of its calls, or because its callees are
 * estimates. */
bool run_is_estimated(const struct run *run, uint32_t fn, const struct tally *sum);
/* Display name of a function: escapes made visible, with its place or number if another function
 * of the run has the same name. Malloc'd, or NULL. */
char *run_fn_name(const struct run *run, uint32_t fn);

#endif
