/* When a recording begins and ends, and where it is put: by the environment `piano record` sets, or by the program itself. The
 * instruments (heap, trace) hang on one recording, alone or together. */
#ifndef PIANO_TARGET_RECORD_CONTROL_H
#define PIANO_TARGET_RECORD_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* At the first allocation: begins what the environment asks for. Once; nothing before the C library knows its
 * environment. */
void piano__control_begin(void);
/* One thread at a time begins or ends an instrument, whichever: the recording is one for all. (sys/lock.h) */
extern uint32_t piano__control_changing;
/* An instrument begins: creates the recording unless there is one. 0 or negative errno. */
int piano__control_open(void);
/* It could not: lets go of the recording unless another one is at work in it. */
void piano__control_abandon(void);
/* An instrument is at work: FLAGS of enum piano__rec_flags. */
void piano__control_started(uint32_t flags);
/* Whether the tool samples this process's CPU time from outside, into the same recording. */
bool piano__control_is_sampled(void);
/* A variable of the environment; 0 when it is not there or no number. */
uint64_t piano__control_number(const char *name);

#endif
