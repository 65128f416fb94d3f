/* The recording as the program writes it: a file that is mapped chunk by chunk
 * (common/recording.h). */
#ifndef PIANO_TARGET_SYS_RECORDING_H
#define PIANO_TARGET_SYS_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "common/snapshot.h"

struct piano__recording {
    struct piano__rec_view view; /* `header` is NULL while there is no recording */
    int fd;
    uint64_t retry_ns; /* after a failed claim: do not retry before this time */
    /* Chunks that this process and others may still claim together; NULL: no common limit. */
    int64_t *budget;
};

extern struct piano__recording piano__recording;

/* Creates PATH and its header. Returns 0 or a negative errno. The state is STARTING. Not
 * thread-safe. */
int piano__recording_create(const char *path);
/* The same with a recording that the tool has made and opened as FD, for PATH. Takes FD. */
int piano__recording_adopt(int fd, const char *path);
/* Returns the path passed to piano__recording_create(), which may be relative to the working
 * directory of that time. */
const char *piano__recording_path(void);
/* Returns a new chunk, zeroed and `ready`, or NULL if there is no room. Lock-free, any thread. */
struct piano__chunk *piano__recording_claim(uint32_t type, uint64_t index);
/* The same for a chunk that will be full soon: its pages are already in memory. Otherwise the first
 * write to each page costs three times as much. */
struct piano__chunk *piano__recording_claim_filled(uint32_t type, uint64_t index);
/* Removes the file; its memory stays mapped. Returns whether it did. */
bool piano__recording_unlink(void);
/* In a forked child: unmaps everything without changing the file. */
void piano__recording_forget(void);
/* Unmaps everything and removes the file. For a recording that could not be started. */
void piano__recording_discard(void);
/* As piano__recording_forget(), for a fork in a signal handler that interrupted a write to the
 * recording. Maps private memory in its place, so that the interrupted code can continue. */
void piano__recording_blank(void);
#ifdef PIANO_CHECK
/* Returns whether the header and the chunks mapped here have values that a reader accepts
 * (sys/check.h). Any thread, at any time. */
bool piano__recording_is_valid(void);
#endif

#endif
