/* The run: one process, one run file, one live image. */
#ifndef PIANO_TARGET_SPAN_RUN_H
#define PIANO_TARGET_SPAN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/live.h"
#include "target/sys/file.h"

enum piano__run_state { PIANO_RUN_NONE = 0, PIANO_RUN_STARTING, PIANO_RUN_ON, PIANO_RUN_OFF };

struct piano__run {
    int state;
    struct piano__live_header *header; /* set by piano__run_prepare; complete from ON */
    int64_t bias_alloc;                /* copy for the allocation hooks, 1/256 ticks */
    int fd;                            /* the run file, appending */
    int live_fd;
    struct piano__file_id file; /* identity of the two files, to detect reused descriptors */
    struct piano__file_id live_file;
    pid_t pid;
    int starter;            /* tid of the starting thread */
    uint64_t missed;        /* calls while the run was starting */
    uint32_t announced_fns; /* functions named in the file so far */
    uint32_t thread_numbers;
    uint64_t frame_numbers;
    uint64_t file_bytes;
    uint64_t start_mono_ns;    /* CLOCK_MONOTONIC at the header's `start_ticks` */
    int64_t next_sync;         /* tick at which the two clocks are compared again */
    bool repeated;             /* some frame root was called more than once */
    struct piano__tally *sums; /* per function: sums of all lines, for the v1 file */
    char stem[4096];           /* path of the run file without extension */
    size_t planned;            /* bytes that threads are about to append */
};

extern struct piano__run piano__run;

/* Calibrates once per process. Called at registration. */
void piano__run_prepare(void);
/* Starts the run if there is something to record. Returns whether it is on. Cheap once it is. */
bool piano__run_start(void);
/* Writes the names of functions registered after the header was written. */
void piano__run_functions_added(void);
/* Records both clocks if a sync is due at NOW. */
void piano__run_sync(int64_t now);
/* Appends whole lines to the run file. Counts failed writes as dropped. */
void piano__run_write(const char *text, size_t len);
/* Adds to the sums for the v1 file, unless a frame has already repeated. */
void piano__run_sum(uint32_t id, const struct piano__tally *tally);

static inline void piano__dropped_add(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
