/* Creates and discards the recording, and chooses its path: as requested by the environment that
 * `piano record` sets, or by the program itself. The heap, trace and CPU profilers share one
 * recording. */
#ifndef PIANO_TARGET_RECORD_CONTROL_H
#define PIANO_TARGET_RECORD_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Called at the first allocation: starts what the environment requests, once. Does nothing before
 * the C library has set up the environment. Defined in main/begin.c, because it starts the
 * profilers, whose rooms include this one. */
void piano__control_begin(void);
/* Lock (sys/lock.h): one thread at a time starts or stops any of the profilers, because they share
 * one recording. */
extern uint32_t piano__control_changing;
/* Called when a profiler starts: creates the recording unless there is one. Returns 0 or a negative
 * errno. */
int piano__control_open(void);
/* In an attached process: uses the recording that the tool made, FD (which it takes), and TEXT of
 * PIANO_ATTACH_SETTINGS bytes instead of the environment. Returns 0 or a negative errno. */
int piano__control_adopt(int fd, const char *path, const char *text);
/* The profilers have shut their gates: returns whether no thread uses the recording any more, so
 * that its memory can be released. */
bool piano__control_take_away(void);
/* Called when a profiler failed to start: discards the recording unless another profiler uses
 * it. */
void piano__control_abandon(void);
/* Called when a profiler has started: FLAGS of enum piano__rec_flags. */
void piano__control_started(uint32_t flags);
/* Whether the tool has ended the recording. The profilers ask when they have other slow work, and
 * then shut their gate: what is recorded until then is later than `ended_ns` and does not count. */
bool piano__control_is_ended(void);
/* Call these in a forked child: the first shuts the gate, the second gives up the recording.
 * IS_IN_USE: a signal handler forked while its thread was writing to the recording, so the mapping
 * stays, without the file. */
void piano__control_forked(void);
void piano__control_forget(bool is_in_use);
/* Returns whether the environment requests a recording of this process. */
bool piano__control_is_for_us(void);
/* Returns whether the tool samples this process's CPU time from outside, into the same
 * recording. */
bool piano__control_is_sampled(void);
/* Returns the number in an environment variable; 0 if it is not set or not a number. */
uint64_t piano__control_number(const char *name);

#endif
