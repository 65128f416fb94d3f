/* Follows the events of a recording while the program writes it.
 *
 *   struct follow f;
 *   follow_open(&f, path, &error);
 *   for (;;) {
 *       follow_step(&f, MOST_BYTES);       // finds what is new
 *       walk = recording_walk_new(&f.rec); // the new events, in order of time
 *       ...
 *   }
 *   follow_close(&f);
 *
 * `rec` has the header, names, threads and tracks of the recording, which grow from step to step,
 * and the segments of the new events alone. All else of it stays empty. The events of one step are
 * later than those of the steps before. A step costs some time for each chunk of the recording, and
 * for each event: at most MOST_BYTES of the ring are read, the newest, and the rest is skipped and
 * counted. Events after a skipped part have `after_gap`. */
#ifndef PIANO_TOOL_LOAD_FOLLOW_H
#define PIANO_TOOL_LOAD_FOLLOW_H

#include "tool/load/recording.h"

struct follow {
    struct recording rec;
    uint64_t skipped;  /* bytes of events */
    bool is_partial;   /* in the last step, some threads were not read */
    bool is_over;      /* set it when the program has ended: the last events need not settle */
    uint64_t until_ns; /* CLOCK_MONOTONIC: events up to here were read */

    int fd;
    uint8_t *known; /* of each chunk: whether its type is known */
    size_t known_count, known_cap;
    struct follow_log *logs;
    size_t log_count, log_cap;
};

/* 0, or negative errno with ERROR filled. */
int follow_open(struct follow *f, const char *path, struct run_error *error);
/* Finds what is new. 0 or negative errno: -ESTALE if the file was truncated. */
int follow_step(struct follow *f, size_t most_bytes);
void follow_close(struct follow *f);

#endif
