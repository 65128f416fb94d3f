/* The processes of one `piano record`: FILE has the program, and the CPU samples and waits of all
 * processes if they were sampled from outside; FILE-PID has the events and the heap of process PID.
 *
 *   family_peek(&rec, path, process, &error); // FILE, and which others there are
 *   recording_read(&rec, &error);             // reads them too, and joins them (rec_join.c)
 *
 * Without another file, `rec` is what recording_peek() makes of FILE. */
#ifndef PIANO_TOOL_LOAD_FAMILY_H
#define PIANO_TOOL_LOAD_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/recording.h"

struct family_member {
    char *path;
    uint32_t pid;
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    unsigned flags;    /* enum piano__rec_flags */
    bool is_hidden;    /* the figures of its heap are not known */
    bool is_chosen;
};

struct family {
    struct family_member *list; /* the program first, then by start */
    size_t count;
    size_t base;    /* the member that the recording was opened with */
    char *process;  /* name or number of the chosen processes; NULL: all */
    uint32_t *pids; /* chosen, sorted, unless all are */
    size_t pid_count;
};

/* Finds the recordings of processes that belong to the recording at PATH, which is the first member.
 * 0 or negative errno. */
int family_find(struct family *f, const char *path);
void family_release(struct family *f);

/* Opens the recording at PATH with its further processes; recording_read() reads them. PROCESS: name
 * or number of those that are wanted; NULL: all. 0, or negative errno with ERROR filled. */
int family_peek(struct recording *rec, const char *path, const char *process,
                struct run_error *error);

/* Whether process PID is chosen. */
bool family_has(const struct family *f, uint32_t pid);
/* Chooses PID too. 0 or -ENOMEM. */
int family_add(struct family *f, uint32_t pid);
/* Whether the name of a process is the one that was asked for. */
bool family_is_named(const struct family *f, const char *program, const char *command);

#endif
