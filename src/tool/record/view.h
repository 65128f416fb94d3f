/* The tool's mapping of a recording that a program may be writing at the same time. */
#ifndef PIANO_TOOL_RECORD_VIEW_H
#define PIANO_TOOL_RECORD_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "common/snapshot.h"

enum {
    /* 256 MB of snapshots, then no more: a recording does not grow without end. */
    VIEW_MAX_SNAPSHOT_CHUNKS = 4096,
};

struct view_chunk {
    uint32_t type;             /* 0 while it is not ready */
    struct piano__chunk *from; /* its mapping; NULL when nobody needed it yet */
};

struct view {
    struct piano__rec_view base; /* first: what the callbacks get is this struct */
    int fd;
    struct view_chunk *chunks; /* those looked at so far */
    size_t count;
    size_t capacity;
    uint64_t log; /* 1 + number of the newest chunk with snapshots by the tool; 0 none */
    uint64_t snapshot_chunks;     /* how many there are, by whomever */
    uint64_t max_snapshot_chunks; /* VIEW_MAX_SNAPSHOT_CHUNKS, less where the file is to be small */
};

/* Is H the beginning of a recording that this version can read? 0, -EBADMSG (not one, or not yet) or -EPROTO (of
 * another version). */
int view_check(const struct piano__rec_header *h);

/* 0 or negative errno, as `view_check` has it. The second takes FD over, which is open for reading and writing. */
int view_open(struct view *v, const char *path);
int view_open_fd(struct view *v, int fd);
void view_close(struct view *v);

/* A fresh chunk, `ready`, and its NUMBER; to be unmapped by who asked for it. NULL when there is no room. */
struct piano__chunk *view_claim(const struct view *v, uint32_t type, uint64_t index,
                                uint64_t *number);
/* Chunk NUMBER, which was claimed like this before, emptied; NULL when the file has been cut off. */
struct piano__chunk *view_reclaim(const struct view *v, uint64_t number, uint64_t index);
/* Gives back what the two returned. */
void view_unmap(struct piano__chunk *c);

/* Takes a snapshot now, at a moment when no other tool takes one. Its number, or negative errno: -ENOSPC when there
 * is no room, or there are enough; -EAGAIN when another tool is at it (one of kind TIMER does not wait for that). */
int view_snapshot(struct view *v, enum piano__snapshot_kind kind, uint64_t resident);

#endif
