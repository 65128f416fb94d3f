/* The recording as the program writes it: a file mapped piece by piece (common/recording.h). */
#ifndef PIANO_TARGET_SYS_RECORDING_H
#define PIANO_TARGET_SYS_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "common/snapshot.h"

struct piano__recording {
    struct piano__rec_view view; /* `header` is NULL while there is none */
    int fd;
    uint64_t retry_ns; /* after a refused claim: not before this */
};

extern struct piano__recording piano__recording;

/* Creates PATH and its header: 0 or negative errno. The state is STARTING. Not thread-safe. */
int piano__recording_create(const char *path);
/* Where it is: as it was created, so maybe from the directory of that time. */
const char *piano__recording_path(void);
/* A fresh chunk, zeroed and `ready`; NULL when there is no room for one. Lock-free, any thread. */
struct piano__chunk *piano__recording_claim(uint32_t type, uint64_t index);
/* The same of one that will be full soon: it is in memory already, where else each of its pages is asked for when it is first
 * written to, at three times the price. */
struct piano__chunk *piano__recording_claim_filled(uint32_t type, uint64_t index);
/* In a forked child: lets go of everything without touching the file. */
void piano__recording_forget(void);
/* Nothing could be begun: the file goes too. */
void piano__recording_discard(void);
/* The same while this thread is in the middle of writing to it, interrupted by a signal whose handler forked: private memory
 * takes its place, for it to go on in. */
void piano__recording_blank(void);

#endif
