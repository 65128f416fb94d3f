/* The recordings of one `piano record`: of the program, of the programs it becomes by exec, and of
 * its children. */
#ifndef PIANO_TOOL_RECORD_RECORDINGS_H
#define PIANO_TOOL_RECORD_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "tool/record/view.h"
#include "tool/util/map.h"

struct recording {
    char *path;
    pid_t pid;
    unsigned image;    /* 1; 2, 3, ... after each exec */
    bool over;         /* complete: the process ended or became another program */
    int pidfd;         /* of a child; -1: none */
    bool is_looked_at; /* whether there is anything in it, after it was over */
};

struct recordings {
    char *path;    /* requested by the user */
    pid_t program; /* its process id */
    bool children;
    uint64_t since_ns; /* CLOCK_MONOTONIC of the start; older recordings are not ours */
    struct recording *list;
    size_t count;
    size_t dropped;                   /* recordings of children that had nothing */
    struct map seen;                  /* file names of children, by hash */
    struct timespec changed;          /* when the directory was changed, as far as it was read */
    struct piano__rec_header *header; /* of `path`, for the limits on children; NULL: not mapped */
    unsigned next;                    /* next image of the program to look for */
    struct view view;                 /* of the newest image of the program, while it runs */
    char *viewed;                     /* path of `view`; NULL: not open */
    uint64_t refused;                 /* snapshots refused for lack of space */
};

/* Takes ownership of PATH. */
void recordings_init(struct recordings *r, char *path, pid_t program, bool children,
                     uint64_t since_ns);
void recordings_release(struct recordings *r);

/* Looks for new recordings. */
void recordings_find(struct recordings *r);
/* Forgets recordings whose files somebody has deleted. */
void recordings_forget_deleted(struct recordings *r);

/* The path of the newest image of the program; NULL when there is none. */
const char *recordings_newest(const struct recordings *r);

/* Takes a snapshot of all recordings that are being written and adds their size to *BYTES. Returns
 * the number of snapshots. */
size_t recordings_snapshot(struct recordings *r, enum piano__snapshot_kind kind, uint64_t *bytes);

/* Writes FIRED into all recordings that are being written, and ends them if that is its action.
 * Returns how many. */
size_t recordings_fire(struct recordings *r, const struct piano__fired *fired);

/* Whether there is a recording of a later program of the same process. */
bool recordings_has_later(const struct recordings *r, const struct recording *one);

/* Whether ONE is still written; notes it if not. */
bool recordings_is_at_work(struct recording *one);

/* Removes the file of ONE if nothing was recorded; its path is then NULL. Returns whether it did. */
bool recordings_drop_empty(struct recording *one);

/* Reads the header of PATH. Returns 0 or negative errno. */
int recordings_header(const char *path, struct piano__rec_header *h);

#endif
