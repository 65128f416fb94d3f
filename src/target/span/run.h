/* The run: one process, one run file, one live image. */
#ifndef PIANO_TARGET_SPAN_RUN_H
#define PIANO_TARGET_SPAN_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/live.h"
#include "target/sys/file.h"

enum piano__run_state { PIANO_RUN_NONE = 0, PIANO_RUN_STARTING, PIANO_RUN_ON, PIANO_RUN_OFF };

struct piano__run {
    _Atomic int state;
    struct piano__live_header *header; /* in the image; valid from ON */
    int64_t bias_alloc;                /* a copy of what the hooks need most, 1/256 ticks */
    int fd;                            /* the run file, appending */
    int live_fd;
    struct piano__file_id file; /* of the two, to know them again */
    struct piano__file_id live_file;
    pid_t pid;
    _Atomic int starter;            /* tid */
    _Atomic uint64_t missed;        /* calls while the run was starting */
    _Atomic uint32_t announced_fns; /* functions named in the file so far */
    _Atomic uint32_t thread_numbers;
    _Atomic uint64_t frame_numbers;
    _Atomic uint64_t file_bytes;
    uint64_t start_mono_ns;    /* CLOCK_MONOTONIC at `start_ticks` of the header */
    _Atomic int64_t next_sync; /* ticks: when the two clocks are compared again */
    _Atomic bool repeated;     /* some frame root was called more than once */
    struct piano__tally *sums; /* per function, what lines have carried, for the v1 file */
    char stem[4096];           /* path without its ending */
    _Atomic size_t planned;    /* bytes that threads are about to append to the run file */
};

extern struct piano__run piano__run;

/* Calibrates, once; at registration. */
void piano__run_prepare(void);
/* Starts the run if there is something to record; true when it is on. Cheap when it is. */
bool piano__run_start(void);
/* Names functions that were registered after the header was written. */
void piano__run_functions_added(void);
/* At NOW ticks: writes both clocks down if it is time to. */
void piano__run_sync(int64_t now);
/* Appends whole lines to the run file; counts what could not be written. */
void piano__run_write(const char *text, size_t len);
/* Adds to the sums for the v1 file, as long as the run may still end without frames. */
void piano__run_sum(uint32_t id, const struct piano__tally *tally);

static inline void piano__dropped_add(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
