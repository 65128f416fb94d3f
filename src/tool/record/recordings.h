/* The recordings that one `piano record` leads to: of the program, of what it becomes by exec, of its children. */
#ifndef PIANO_TOOL_RECORD_RECORDINGS_H
#define PIANO_TOOL_RECORD_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/record/view.h"

struct recording {
    char *path;
    pid_t pid;
    unsigned image; /* 1, then 2, 3, ... after each exec */
    bool over;      /* nothing more will come: the process ended or is another program now */
};

struct recordings {
    char *path;    /* asked for */
    pid_t program; /* its process id */
    bool children;
    uint64_t since_ns; /* CLOCK_MONOTONIC of the start: what is older is not ours */
    struct recording *list;
    size_t count;
    unsigned next;    /* image of the program to look for */
    struct view view; /* of the newest image of the program, while it runs */
    char *viewed;     /* its path; NULL when it is not open */
    uint64_t refused; /* snapshots for which there was no room */
};

/* Takes PATH over. */
void recordings_init(struct recordings *r, char *path, pid_t program, bool children,
                     uint64_t since_ns);
void recordings_release(struct recordings *r);

/* Looks for those that have come since. */
void recordings_find(struct recordings *r);

/* The path of the newest image of the program; NULL when there is none. */
const char *recordings_newest(const struct recordings *r);

/* Takes a snapshot of all that are being written; adds the room they took to *BYTES. How many were taken. */
size_t recordings_snapshot(struct recordings *r, enum piano__snapshot_kind kind, uint64_t *bytes);

/* Reads the header of PATH; 0 or negative errno. */
int recordings_header(const char *path, struct piano__rec_header *h);

#endif
